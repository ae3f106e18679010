package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/setup/connect"
)

// person reports whether a person reads what the command prints: stdout is a terminal, and JSON was
// not asked for.
func (a *app) person() bool { return !a.json && isTerminal(a.stdout) }

// answer prints what a command has done. A person gets the lines. A program gets the document on
// stdout and, unless it asked for JSON, the first line on stderr.
func (a *app) answer(document any, lines ...string) error {
	if !a.person() {
		a.say("%s", lines[0])
		return writeJSON(a.stdout, document)
	}
	_, err := io.WriteString(a.stdout, strings.Join(lines, "\n")+"\n")
	return err
}

// granted returns the lines about a claim that was granted: the task, until when, and what to do
// next.
func (a *app) granted(c api.Claim, now time.Time) []string {
	over := ""
	if c.Override {
		over = "; " + clean(c.Former) + " had it before, and let the lease run out"
	}
	if !a.person() {
		return []string{fmt.Sprintf("%s is %s's%s%s", quoted(c.Task), clean(c.Agent), lasting(c.ExpiresAt, now), over)}
	}
	title := a.styled(clean(cmp.Or(c.Task.Title, string(c.Task.ID))), bold)
	if c.Task.Key != "" {
		title = clean(c.Task.Key) + "  " + title
	}
	if c.Task.Priority != "none" && c.Task.Priority != "" {
		title += "  (" + clean(c.Task.PriorityWord()) + ")"
	}
	return []string{
		title,
		fmt.Sprintf("%s's%s%s", clean(c.Agent), lasting(c.ExpiresAt, now), over),
		"  still at it:  " + a.command("renew", c.Task),
		"  when done:    " + a.command("complete", c.Task) + ` --summary "what was done"`,
	}
}

// command returns a command about a task as the caller would type it.
func (a *app) command(verb string, t api.TaskRef) string {
	words := []string{a.program(), verb}
	if name := handle(t); name != "" {
		words = append(words, name)
	}
	if a.agent != "" && a.agent != os.Getenv("DIBS_AGENT") {
		words = append(words, "--agent", connect.ShellWord(clean(a.agent)))
	}
	return strings.Join(words, " ")
}

// program returns how the caller calls dibs.
func (a *app) program() string {
	if a.tried {
		return "dibs try"
	}
	return "dibs"
}

// further returns a line about what the agent could do next, for a person who has just finished a
// task. It is empty if the daemon cannot say.
func (a *app) further(ctx context.Context, daemon *client.Client, agent string) string {
	list, err := daemon.Tasks(ctx, api.TaskFilter{Ready: true, Agent: agent, Limit: 1})
	switch {
	case err != nil || list.LimitReached:
		return ""
	case list.Total == 0 && len(list.Tasks) == 0:
		return "Nothing else is ready. What the others wait for: " + a.program() + " ready --why"
	case max(list.Total, len(list.Tasks)) == 1:
		return "1 more is ready: " + a.command("next", api.TaskRef{})
	}
	return fmt.Sprintf("%d more are ready: %s", list.Total, a.command("next", api.TaskRef{}))
}

// styled returns a text in a style, on a terminal that shows it.
func (a *app) styled(text string, style interface{ Styled(string) string }) string {
	if !coloured(a.stdout) {
		return text
	}
	return style.Styled(text)
}
