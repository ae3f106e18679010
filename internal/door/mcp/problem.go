package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// usageError is a call that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// problemOf turns every failure into a problem like the daemon's own.
func problemOf(ctx context.Context, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*client.UnreachableError](err); ok {
		p := api.NewProblem(api.CodeUnreachable, err.Error())
		switch {
		case e.Sandboxed():
			p.Detail = "a sandbox keeps dibs mcp from the daemon, and only a person can change that: tell them (docs/clients.md, In a sandbox)"
		case !e.Sent && !errors.Is(err, fs.ErrPermission):
			p.Detail = "the daemon is away"
			p.RetryIn(retry)
		case e.Sent:
			p.Detail = "the daemon went away without an answer, and may have done what it was asked to: call list_tasks with mine to see what you hold"
		}
		return p
	}
	if _, ok := errors.AsType[*client.ImpostorError](err); ok {
		return api.NewProblem(api.CodeUnreachable, err.Error())
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return api.NewProblem(api.CodeUsage, err.Error())
	}
	if ctx.Err() != nil {
		return api.NewProblem(api.CodeFailed, fmt.Sprintf("stopped: %v", context.Cause(ctx)))
	}
	return api.NewProblem(api.CodeFailed, err.Error())
}

// kept returns until when the agent's claims live that nobody renews; empty if it has none.
func (a *agent) kept() string {
	a.mu.Lock()
	held := slices.SortedFunc(maps.Values(a.claims), func(x, y api.Claim) int { return x.ExpiresAt.Compare(y.ExpiresAt.Time) })
	a.mu.Unlock()
	switch len(held) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; your claim on %s lives until %s", called(taskOf(held[0].Task)), timeOfDay(held[0].ExpiresAt.Time))
	}
	return fmt.Sprintf("; your %d claims live until %s at least", len(held), timeOfDay(held[0].ExpiresAt.Time))
}

// command matches advice to run a command. A model that has the tools may have no shell.
var command = regexp.MustCompile("(?:; [^;:]*: |[,;:] (?:or |see |then run |say more with )*)`?dibs (?:adopt|cluster|comment|log|ready|reopen|resume|show|status|sweep|sync)\\b[^;,)]*")

// withoutCommands removes such advice from what the daemon says.
func withoutCommands(detail string) string { return command.ReplaceAllString(detail, "") }

// Failure is the answer of a tool that failed.
type Failure struct {
	Code       api.Code `json:"code"`
	Detail     string   `json:"detail"`
	Holder     string   `json:"holder,omitempty"`
	ExpiresAt  api.Time `json:"expires_at,omitzero"`
	RetryAfter int      `json:"retry_after,omitempty"` // in seconds
	Task       *Task    `json:"task,omitempty"`
	Claims     []Task   `json:"claims,omitempty"`
	// Summary says what the unfinished tasks wait for, if none is ready.
	Summary *api.Summary `json:"summary,omitempty"`
	Notices []string     `json:"notices,omitempty"`
}

// failed returns the answer of a tool that failed, for programs and for the model.
func failed(ctx context.Context, err error, news []string) *sdk.CallToolResult {
	p := problemOf(ctx, err)
	detail := strings.TrimSuffix(withoutCommands(line(p.Detail)), "; ask for the next ready task instead") // see instead
	f := Failure{Code: p.Code, Detail: detail, Holder: p.Holder, ExpiresAt: p.ExpiresAt, RetryAfter: p.RetryAfter, Summary: p.Summary, Notices: news}
	if p.Task != nil {
		t := taskOf(*p.Task)
		f.Task = &t
	}
	for _, c := range p.Claims {
		f.Claims = append(f.Claims, heldTask(c))
	}
	text := string(p.Code) + ": " + f.Detail
	if until := lasting(p.ExpiresAt); until != "" && !strings.Contains(f.Detail, until) {
		text += ":" + until
	}
	if p.RetryAfter > 0 {
		text += fmt.Sprintf(". Try again in %d seconds", p.RetryAfter)
	}
	if more := instead(p.Code); more != "" {
		text += ". " + more
	}
	for _, c := range f.Claims {
		text += "\n- " + taskLine(c)
	}
	return result(text, f, news, true)
}

// instead returns what to do after a refusal.
func instead(code api.Code) string {
	switch claim.Code(code) {
	case claim.CodeHeld, claim.CodeNotOpen, claim.CodeLostRace, claim.CodeBlockedByDependency, claim.CodeReserved, claim.CodeNotOffered:
		return "Call claim_task without task to get another one"
	case claim.CodeNotFound:
		return "If it was just made, call again in a minute"
	case claim.CodeNothingReady:
		return "Call claim_task with wait_seconds to wait for one"
	case claim.CodePaused:
		return "Call claim_task with wait_seconds to wait until that is over"
	}
	switch code {
	case api.CodeClaimLost:
		return "Stop working on that task"
	case api.CodeAmbiguousClaim:
		return "Name the task"
	}
	return ""
}

// result returns the answer of a tool.
func result(text string, structured any, news []string, isError bool) *sdk.CallToolResult {
	text = strings.Join(append(news, text), "\n")
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: isError}
	if data, err := json.Marshal(structured); err == nil {
		r.StructuredContent = json.RawMessage(data)
	}
	return r
}
