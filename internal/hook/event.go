// Package hook answers what clients and git ask before they act: it reads a client's
// event, asks the daemon, and says what the agent should know, or why it must not go on.
//
// A hook must never stop an agent by mistake. Whatever goes wrong here, an event that is
// not understood or a daemon that does not answer, the client goes on as if there were no
// hook.
package hook

import (
	"encoding/json"
	"path/filepath"
	"strings"
)

// Kind is what an event is about, however its client spells it.
type Kind int

// The kinds.
const (
	Other        Kind = iota // nothing that dibs has an opinion on
	SessionStart             // a session begins, goes on, or its context was compacted
	BeforeTool               // a tool is about to be used
	Stop                     // the agent is about to end its turn
	PreCommit                // git is about to commit
)

// Event is what a client says.
type Event struct {
	Kind Kind
	// Name is the event as the client spells it. Claude Code and Codex write
	// PreToolUse, Cursor preToolUse, and each wants to be answered in its own form.
	Name string
	// Session tells one session of the client from another; empty if unknown.
	Session string
	// Dir is the directory that relative paths start from.
	Dir string
	// Paths are the files that the tool would write, as the client names them.
	Paths []string
	// Said is what the agent said last, as far as the client tells.
	Said string
	// Again is set if the agent goes on because a hook made it.
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

// input is the JSON of Claude Code, Codex and Cursor, as far as it says something here.
// Every field may be missing or of another type, and is left out then.
type input struct {
	Session      text            `json:"session_id"`
	Conversation text            `json:"conversation_id"`
	Dir          text            `json:"cwd"`
	Roots        texts           `json:"workspace_roots"`
	Tool         text            `json:"tool_name"`
	Arguments    json.RawMessage `json:"tool_input"`
	Said         text            `json:"last_assistant_message"`
	Again        flag            `json:"stop_hook_active"`
	Loops        count           `json:"loop_count"`
}

// arguments are the inputs of the tools that write files.
type arguments struct {
	FilePath     text  `json:"file_path"`
	NotebookPath text  `json:"notebook_path"`
	Path         text  `json:"path"`
	TargetFile   text  `json:"target_file"`
	Command      patch `json:"command"`
	Input        text  `json:"input"`
	Patch        text  `json:"patch"`
}

type (
	text  string
	texts []string
	flag  bool
	count int
	// patch is a text, or the arguments of a command, the last of which is one.
	patch string
)

// lenient reads a value, and leaves it out if it is of another type.
func lenient[T any](data []byte, into *T) error {
	var v T
	if json.Unmarshal(data, &v) == nil {
		*into = v
	}
	return nil
}

func (t *text) UnmarshalJSON(data []byte) error  { return lenient(data, (*string)(t)) }
func (t *texts) UnmarshalJSON(data []byte) error { return lenient(data, (*[]string)(t)) }
func (f *flag) UnmarshalJSON(data []byte) error  { return lenient(data, (*bool)(f)) }
func (c *count) UnmarshalJSON(data []byte) error { return lenient(data, (*int)(c)) }

func (p *patch) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		*p = patch(list[len(list)-1])
		return nil
	}
	return lenient(data, (*string)(p))
}

// Parse reads an event. What is no JSON is an event about which nothing is known.
func Parse(name string, stdin []byte) Event {
	e := Event{Kind: KindOf(name), Name: name}
	var in input
	if json.Unmarshal(stdin, &in) != nil {
		return e
	}
	e.Session, e.Dir, e.Said = string(in.Session), string(in.Dir), string(in.Said)
	e.Again = bool(in.Again) || in.Loops > 0
	if e.Session == "" {
		e.Session = string(in.Conversation)
	}
	if e.Dir == "" && len(in.Roots) > 0 {
		e.Dir = in.Roots[0]
	}
	if e.Kind == BeforeTool {
		e.Paths = edited(string(in.Tool), in.Arguments)
	}
	return e
}

// edited returns the files that a tool would write. Those of a shell command are not
// known: git's hook looks at them before they are committed.
func edited(tool string, raw json.RawMessage) []string {
	var args arguments
	if json.Unmarshal(raw, &args) != nil {
		return nil
	}
	var paths []string
	switch strings.ToLower(tool) {
	case "apply_patch":
		for _, p := range []string{string(args.Command), string(args.Input), string(args.Patch)} {
			paths = append(paths, patched(p)...)
		}
	case "bash", "shell", "local_shell", "exec_command", "read", "grep", "glob", "ls":
		return nil
	default:
		for _, p := range []text{args.FilePath, args.NotebookPath, args.TargetFile, args.Path} {
			if p != "" {
				paths = append(paths, string(p))
			}
		}
	}
	return paths
}

// patched returns the files that a patch in the form of apply_patch names.
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

// absolute returns a path of the event as one that holds from anywhere.
func (e Event) absolute(path string) string {
	if filepath.IsAbs(path) || e.Dir == "" {
		return path
	}
	return filepath.Join(e.Dir, path)
}
