package agenthook

import (
	"encoding/json"
	"io"

	"dibs/internal/task"
)

// Refused is the exit code with which Claude Code, Codex and Cursor refuse.
const Refused = 2

// Write writes the answer in the client's form for the event, and returns the exit code. Clients
// put it between their own tags, which no text by others may close.
func (a Answer) Write(e Event, stdout, stderr io.Writer) int {
	a.Context, a.Refusal, a.Missed = task.Untagged(a.Context), task.Untagged(a.Refusal), task.Untagged(a.Missed)
	io.WriteString(stderr, a.Missed)
	switch {
	case e.Cursor() && e.Kind == Stop && a.Refusal != "":
		// Cursor cannot refuse to stop: the text becomes its next message.
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

// writeJSON writes a document. Nobody waits for one that cannot be written.
func writeJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}
