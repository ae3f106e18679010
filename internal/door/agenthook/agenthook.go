// Package agenthook answers clients and git before they act: it reads a client's event, asks the daemon,
// and says what the agent should know, or why it must not go on.
//
// A hook must never stop an agent by mistake. If anything goes wrong, such as an unknown event or a
// silent daemon, the client goes on as if there were no hook.
package agenthook

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"

	"dibs/internal/kit/loose"
)

// Kind is the kind of an event, however its client spells it.
type Kind int

const (
	Other        Kind = iota // irrelevant to dibs
	SessionStart             // a session begins, goes on, or its context was compacted
	BeforeTool               // a tool is about to be used
	Stop                     // the agent is about to end its turn
	PreCommit                // git is about to commit
)

// Event is a client's event.
type Event struct {
	Kind Kind
	// Name is the event as the client spells it. Claude Code and Codex write
	// PreToolUse, Cursor preToolUse, and each wants to be answered in its own form.
	Name string
	// Session identifies the client's session; empty if unknown.
	Session string
	// Dir is the directory that relative paths start from.
	Dir string
	// Paths are the files that the tool would write, as the client names them.
	Paths []string
	// Said is the agent's last message, if the client sends it.
	Said string
	// Again is set if the agent goes on because of a hook.
	Again bool
}

// Cursor reports whether the event came from Cursor, by its spelling.
func (e Event) Cursor() bool {
	return e.Name != "" && e.Name[0] >= 'a' && e.Name[0] <= 'z' && e.Kind != PreCommit
}

// KindOf returns the kind of an event of that name.
func KindOf(name string) Kind {
	switch strings.ToLower(name) {
	case "sessionstart":
		return SessionStart
	case "pretooluse":
		return BeforeTool
	case "stop":
		return Stop
	case "pre-commit":
		return PreCommit
	}
	return Other
}

// input is the relevant JSON of Claude Code, Codex and Cursor. A field that is missing or of
// another type stays zero.
type input struct {
	Session      loose.Value[string]   `json:"session_id"`
	Conversation loose.Value[string]   `json:"conversation_id"`
	Dir          loose.Value[string]   `json:"cwd"`
	Roots        loose.Value[[]string] `json:"workspace_roots"`
	Tool         loose.Value[string]   `json:"tool_name"`
	Arguments    json.RawMessage       `json:"tool_input"`
	Said         loose.Value[string]   `json:"last_assistant_message"`
	Again        loose.Value[bool]     `json:"stop_hook_active"`
	Loops        loose.Value[int]      `json:"loop_count"`
}

// arguments are the inputs of the tools that write files.
type arguments struct {
	FilePath     loose.Value[string] `json:"file_path"`
	NotebookPath loose.Value[string] `json:"notebook_path"`
	Path         loose.Value[string] `json:"path"`
	TargetFile   loose.Value[string] `json:"target_file"`
	Command      patch               `json:"command"`
	Input        loose.Value[string] `json:"input"`
	Patch        loose.Value[string] `json:"patch"`
}

// patch is a text, or a command's arguments, the last of which is the text.
type patch struct{ loose.Value[string] }

func (p *patch) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		p.Is = list[len(list)-1]
		return nil
	}
	return p.Value.UnmarshalJSON(data)
}

// Parse reads an event. Without valid JSON, only its name is known.
func Parse(name string, stdin []byte) Event {
	e := Event{Kind: KindOf(name), Name: name}
	var in input
	if json.Unmarshal(stdin, &in) != nil {
		return e
	}
	e.Session, e.Dir, e.Said = cmp.Or(in.Session.Is, in.Conversation.Is), in.Dir.Is, in.Said.Is
	e.Again = in.Again.Is || in.Loops.Is > 0
	if e.Dir == "" && len(in.Roots.Is) > 0 {
		e.Dir = in.Roots.Is[0]
	}
	if e.Kind == BeforeTool {
		e.Paths = edited(in.Tool.Is, in.Arguments)
	}
	return e
}

// edited returns the files that a tool would write. Those of a shell command are unknown: git's
// hook checks them before they are committed.
func edited(tool string, raw json.RawMessage) []string {
	var args arguments
	if json.Unmarshal(raw, &args) != nil {
		return nil
	}
	var paths []string
	switch strings.ToLower(tool) {
	case "apply_patch":
		for _, p := range []string{args.Command.Is, args.Input.Is, args.Patch.Is} {
			paths = append(paths, patched(p)...)
		}
	case "bash", "shell", "local_shell", "exec_command", "read", "grep", "glob", "ls":
		return nil
	default:
		for _, p := range []string{args.FilePath.Is, args.NotebookPath.Is, args.TargetFile.Is, args.Path.Is} {
			if p != "" {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// patched returns the files in a patch in the form of apply_patch.
func patched(text string) []string {
	var paths []string
	for line := range strings.Lines(text) {
		for _, before := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if path, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), before); ok && path != "" {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// absolute makes a path of the event absolute, if the event's directory is known.
func (e Event) absolute(path string) string {
	if filepath.IsAbs(path) || e.Dir == "" {
		return path
	}
	return filepath.Join(e.Dir, path)
}
