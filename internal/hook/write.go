package hook

import (
	"encoding/json"
	"io"

	"dibs/internal/task"
)

// Refused is the exit code that refuses: that of Claude Code, Codex and Cursor.
const Refused = 2

// Write tells the client the answer, in the form that it wants for the event, and returns
// the exit code. Clients put it between tags of their own, which no text of others may end.
func (a Answer) Write(e Event, stdout, stderr io.Writer) int {
	a.Context, a.Refusal, a.Missed = task.Untagged(a.Context), task.Untagged(a.Refusal), task.Untagged(a.Missed)
	io.WriteString(stderr, a.Missed)
	switch {
	case e.Cursor() && e.Kind == Stop && a.Refusal != "":
		// Cursor knows no refusal to stop: what it is given is its next message.
		writeJSON(stdout, map[string]any{"followup_message": a.Refusal})
	case e.Cursor() && e.Kind == BeforeTool && a.Refusal != "":
		writeJSON(stdout, map[string]any{"permission": "deny", "user_message": a.Refusal, "agent_message": a.Refusal})
		io.WriteString(stderr, a.Refusal)
		return Refused
	case a.Refusal != "":
		io.WriteString(stderr, a.Refusal)
		return Refused
	case a.Context != "" && e.Cursor():
		writeJSON(stdout, map[string]any{"additional_context": a.Context})
	case a.Context != "":
		writeJSON(stdout, map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": e.Name, "additionalContext": a.Context}})
	}
	return 0
}

// writeJSON writes a document. What could not be written nobody waits for.
func writeJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}
