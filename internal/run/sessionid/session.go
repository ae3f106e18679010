// Package sessionid identifies the session that a command runs in, among those of the same user: the
// session of an agent's client, or a terminal. It is for clients alone: the values of variables
// leave the process only hashed.
package sessionid

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Session is an identified session.
type Session struct {
	// ID is the same for all commands of the session, and unique among the user's sessions on this
	// machine. It is a hash, so it does not reveal its source.
	ID string
	// From is the source of ID: the names of variables, or Terminal.
	From string
}

// Terminal is the From of a session that is identified by its session leader, not by a variable.
const Terminal = "terminal"

// own is the variable with which a user can identify sessions.
const own = "DIBS_SESSION"

// clients are the variables in which agents' clients pass the id of the session to the commands
// that they run.
//   - Claude Code: CLAUDE_CODE_SESSION_ID, in what its Bash tool and hooks run since
//     2.1.132, and in MCP servers since 2.1.154; it changes with /clear
//     (https://code.claude.com/docs/en/env-vars).
//   - Codex: CODEX_THREAD_ID, in commands (https://github.com/openai/codex/pull/10096); MCP
//     servers do not get it.
//   - Gemini CLI: GEMINI_SESSION_ID, in hooks; its commands get no more than GEMINI_CLI
//     (https://github.com/google-gemini/gemini-cli/pull/4791).
//   - OpenCode: OPENCODE_SESSION_ID, where a plugin of its shell.env hook sets it.
//
// A client started by a command of another client inherits the other's variable. So all that are
// set count together: the inner client's variable makes the difference.
var clients = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID", "OPENCODE_SESSION_ID"}

// terminal has the variables in which a terminal passes the id of the window or pane.
type terminal struct {
	variables []string // all have to be set; Session.From is the last one
	// programs are the values of TERM_PROGRAM with which the variables are trusted; empty means
	// any.
	programs []string
}

// terminals begins with those that run inside others. A pane's number is unique only within its
// server, so the server's variable counts, too.
var terminals = []terminal{
	{variables: []string{"TMUX", "TMUX_PANE"}},                     // tmux(1)
	{variables: []string{"STY", "WINDOW"}},                         // screen(1)
	{variables: []string{"ZELLIJ_SESSION_NAME", "ZELLIJ_PANE_ID"}}, // https://zellij.dev/documentation/cli-recipes.html
	{variables: []string{"WEZTERM_UNIX_SOCKET", "WEZTERM_PANE"}},   // https://wezterm.org/cli/cli/index.html
	{variables: []string{"KITTY_PID", "KITTY_WINDOW_ID"}},          // https://sw.kovidgoyal.net/kitty/glossary/
	{variables: []string{"TERM_SESSION_ID"}, programs: []string{"Apple_Terminal", "iTerm.app"}},
	{variables: []string{"WT_SESSION"}},                // https://github.com/microsoft/terminal/commit/f30d1485cc92a792a1c251b58ff047cda5edb2f7
	{variables: []string{"SSH_CONNECTION", "SSH_TTY"}}, // sshd(8)
}

// editor is the TERM_PROGRAM of an editor's terminals, which set no variable of their own. They
// inherit the variables above from the terminal that started the editor, so these are the same in
// all of them.
const editor = "vscode"

// OfClient identifies the session by the variables that an agent's client or the user has set for
// that; false if there are none. Use it for processes that a client starts beside its commands: all
// of the client's sessions may share their terminal.
func OfClient(getenv func(string) string) (Session, bool) {
	if text := getenv(own); text != "" {
		return of(own, text), true
	}
	var names, values []string
	for _, name := range clients {
		if value := getenv(name); value != "" {
			names, values = append(names, name), append(values, name+"="+value)
		}
	}
	if len(names) == 0 {
		return Session{}, false
	}
	return of(strings.Join(names, " and "), values...), true
}

// Find identifies the session of this process by its environment, or by its terminal or login. It
// returns false if nothing identifies it: then each command may belong to another session.
func Find(getenv func(string) string) (Session, bool) {
	if s, ok := OfClient(getenv); ok {
		return s, true
	}
	if program := getenv("TERM_PROGRAM"); program != editor {
		for _, t := range terminals {
			if len(t.programs) > 0 && !slices.Contains(t.programs, program) {
				continue
			}
			if values, ok := t.read(getenv); ok {
				return of(t.variables[len(t.variables)-1], values...), true
			}
		}
	}
	if leader, ok := sessionLeader(); ok {
		return of(Terminal, leader), true
	}
	return Session{}, false
}

// Of returns a session for a single command, for use where Find fails. request identifies the
// command, so that a repetition has the same session.
func Of(request string) Session { return of("request", request) }

// read returns the variables with their values; false if one is missing.
func (t terminal) read(getenv func(string) string) (values []string, ok bool) {
	for _, name := range t.variables {
		value := getenv(name)
		if value == "" {
			return nil, false
		}
		if name == "TMUX" { // socket, server, session; the pane can move to another session
			if cut := strings.LastIndexByte(value, ','); cut >= 0 {
				value = value[:cut]
			}
		}
		values = append(values, name+"="+value)
	}
	return values, true
}

func of(from string, values ...string) Session {
	sum := sha256.Sum256([]byte(strings.Join(values, "\x00")))
	return Session{ID: strings.ReplaceAll(from, " and ", "+") + ":" + hex.EncodeToString(sum[:16]), From: from}
}
