//go:build linux || darwin

package sessionid_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"dibs/internal/run/sessionid"
	"dibs/internal/testkit"
)

// child is the variable that has this program say which session it is in, and nothing else.
const child = "SESSION_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		s, ok := sessionid.Find(func(string) string { return "" })
		fmt.Println(s.ID, s.From, ok)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func find(variables ...string) sessionid.Session {
	s, ok := sessionid.Find(func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	})
	if !ok {
		return sessionid.Session{}
	}
	return s
}

// Each line is an environment; all of them are different sessions.
func TestSessionsAreToldApart(t *testing.T) {
	seen := make(map[string]string)
	for _, tt := range []struct{ environment, from string }{
		{"DIBS_SESSION=a", "DIBS_SESSION"},
		{"DIBS_SESSION=b CLAUDE_CODE_SESSION_ID=a", "DIBS_SESSION"},
		{"CLAUDE_CODE_SESSION_ID=a", "CLAUDE_CODE_SESSION_ID"},
		{"CLAUDE_CODE_SESSION_ID=b", "CLAUDE_CODE_SESSION_ID"},
		{"CODEX_THREAD_ID=a", "CODEX_THREAD_ID"},
		{"CODEX_THREAD_ID=b CLAUDE_CODE_SESSION_ID=a", "CLAUDE_CODE_SESSION_ID and CODEX_THREAD_ID"}, // one within the other
		{"GEMINI_SESSION_ID=a", "GEMINI_SESSION_ID"},
		{"OPENCODE_SESSION_ID=a", "OPENCODE_SESSION_ID"},
		{"TMUX=/tmp/tmux-1000/default,7,0 TMUX_PANE=%0", "TMUX_PANE"},
		{"TMUX=/tmp/tmux-1000/default,7,0 TMUX_PANE=%1", "TMUX_PANE"},
		{"TMUX=/tmp/tmux-1000/default,8,0 TMUX_PANE=%1 TERM_PROGRAM=tmux", "TMUX_PANE"},
		{"STY=7.pts-0.host WINDOW=0", "WINDOW"},
		{"ZELLIJ_SESSION_NAME=a ZELLIJ_PANE_ID=0", "ZELLIJ_PANE_ID"},
		{"WEZTERM_UNIX_SOCKET=/run/7 WEZTERM_PANE=0", "WEZTERM_PANE"},
		{"KITTY_PID=7 KITTY_WINDOW_ID=1", "KITTY_WINDOW_ID"},
		{"TERM_SESSION_ID=a TERM_PROGRAM=Apple_Terminal", "TERM_SESSION_ID"},
		{"TERM_SESSION_ID=w0t0p0:b TERM_PROGRAM=iTerm.app", "TERM_SESSION_ID"},
		{"WT_SESSION=a", "WT_SESSION"},
		{"SSH_CONNECTION=192.0.2.1 SSH_TTY=/dev/pts/0", "SSH_TTY"},
		{"SSH_CONNECTION=192.0.2.2 SSH_TTY=/dev/pts/0", "SSH_TTY"},
	} {
		s := find(strings.Fields(tt.environment)...)
		testkit.Check(t, s.From == tt.from, "%s: told by %q, want %q", tt.environment, s.From, tt.from)
		other, taken := seen[s.ID]
		testkit.Check(t, !taken, "%s is the same as %s", tt.environment, other)
		seen[s.ID] = tt.environment
		again := find(strings.Fields(tt.environment)...)
		testkit.Check(t, again == s, "%s: %v, and then %v", tt.environment, s, again)
		testkit.Check(t, len(s.ID) <= 200 && !strings.Contains(s.ID, "192.0.2"), "%s: id %q", tt.environment, s.ID)
	}
}

// What says nothing of this very terminal is passed over.
func TestNotTheSession(t *testing.T) {
	for _, environment := range []string{
		"",
		"TMUX_PANE=%0",
		"SSH_TTY=/dev/pts/0",
		"TERM_SESSION_ID=a",                      // of a terminal that this one was started from
		"TERM_SESSION_ID=a TERM_PROGRAM=ghostty", // the same
		"TERM_PROGRAM=vscode TMUX=/tmp/tmux-1000/default,7,0 TMUX_PANE=%0",
	} {
		s := find(strings.Fields(environment)...)
		testkit.Check(t, s.From == "" || s.From == sessionid.Terminal, "%s: told by %q", environment, s.From)
	}
	// A pane that is moved to another session of its server stays the pane that it is.
	a, b := find("TMUX=/tmp/tmux-1000/default,7,0", "TMUX_PANE=%0"), find("TMUX=/tmp/tmux-1000/default,7,3", "TMUX_PANE=%0")
	testkit.Check(t, a == b, "%v in one session of the server, %v in another", a, b)
}

// Where no variable tells, the process does that leads the session.
func TestTheLeaderTells(t *testing.T) {
	program := testkit.Got(os.Executable())(t)
	run := func(command ...string) string {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), child+"=1", "PROGRAM="+program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.CombinedOutput()
		testkit.Require(t, err == nil, "%q: %v: %s", command, err, out)
		return string(out)
	}
	out := run(program)
	testkit.Check(t, out == "  false\n", "in a session of its own: %q, want none", out)
	twice := run("sh", "-c", `"$PROGRAM"; "$PROGRAM"; true`)
	first, second, _ := strings.Cut(strings.TrimSpace(twice), "\n")
	testkit.Check(t, first == second && strings.HasSuffix(first, " "+sessionid.Terminal+" true"),
		"two commands of one shell: %q", twice)
	other := run("sh", "-c", `"$PROGRAM"; true`)
	testkit.Check(t, other != first+"\n", "two shells are one session: %q", other)
}
