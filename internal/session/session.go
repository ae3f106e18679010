// Package session finds out what tells the session that a command runs in from all others
// of the same user: the session of an agent's client, or a terminal.
package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Session is one that can be told from others.
type Session struct {
	// ID is the same for all commands of the session, and for no other session of the
	// user on this machine. What it is made of cannot be read from it.
	ID string
	// From is what tells the session apart: the names of variables, or Terminal.
	From string
}

// Terminal is what a session is told by that no variable tells of.
const Terminal = "terminal"

// own is the variable with which anybody can tell sessions apart who has nothing else.
const own = "DIBS_SESSION"

// clients are the variables in which agents' clients tell the commands that they run which
// session it is.
//   - Claude Code: CLAUDE_CODE_SESSION_ID, in what its Bash tool and hooks run since
//     2.1.132, and in MCP servers since 2.1.154; it changes with /clear
//     (https://code.claude.com/docs/en/env-vars).
//   - Codex: CODEX_THREAD_ID, in commands (https://github.com/openai/codex/pull/10096); MCP
//     servers do not get it.
//   - Gemini CLI: GEMINI_SESSION_ID, in hooks; its commands get no more than GEMINI_CLI
//     (https://github.com/google-gemini/gemini-cli/pull/4791).
//   - OpenCode: OPENCODE_SESSION_ID, where a plugin of its shell.env hook sets it.
//
// A client that was started by another one's command inherits the variable of that one.
// So all that are set count together: that of the inner one tells it from the outer one.
var clients = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID", "OPENCODE_SESSION_ID"}

// terminal is how a terminal tells what runs in it which window or pane that is.
type terminal struct {
	variables []string // all of them, the last of which is named as what tells
	// programs are the values of TERM_PROGRAM with which they are believed; none means any.
	programs []string
}

// terminals are in this order because those within others come first. A pane's number is
// unique within its server only, so that what names the server counts, too.
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

// editor is the TERM_PROGRAM of terminals within an editor that say nothing of their own.
// What they have of the variables above is that of the terminal which started the editor,
// and the same in all of them.
const editor = "vscode"

// OfClient finds the session of this process by what an agent's client, or the user, set in
// its environment for that; false if nothing is set. What a client starts beside its commands
// may have the terminal of all of its sessions.
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

// Find finds the session of this process by its environment and by the terminal or the
// login that it belongs to; false if nothing tells it from others: then each command
// could be one of another session.
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

// Of returns what stands for a session where none can be told from others, and a command
// comes with a text of its own: the same for that command when it is repeated.
func Of(request string) Session { return of("request", request) }

// read returns what the variables say; false if one is missing.
func (t terminal) read(getenv func(string) string) (values []string, ok bool) {
	for _, name := range t.variables {
		value := getenv(name)
		if value == "" {
			return nil, false
		}
		if name == "TMUX" { // socket, server, and the session that the pane was in at first
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
