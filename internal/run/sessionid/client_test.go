package sessionid_test

import (
	"testing"

	"dibs/internal/run/sessionid"
	"dibs/internal/testkit"
)

// TestOfClient asks for what a client says only: a terminal may have several of its sessions.
func TestOfClient(t *testing.T) {
	environment := func(variables map[string]string) func(string) string {
		return func(name string) string { return variables[name] }
	}
	tmux := map[string]string{"TMUX": "/tmp/tmux-1000/default,7,0", "TMUX_PANE": "%0"}
	s, ok := sessionid.OfClient(environment(tmux))
	testkit.Check(t, !ok, "of a terminal: %v", s)
	for _, name := range []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "DIBS_SESSION"} {
		tmux[name] = "a"
		s, ok := sessionid.OfClient(environment(tmux))
		whole, _ := sessionid.Find(environment(tmux))
		testkit.Check(t, ok && s == whole, "%s: %v, want %v as Find has it", name, s, whole)
		delete(tmux, name)
	}
}
