package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Task is a task in an answer. It is short, as agents pay for each word.
type Task struct {
	ID        task.ID     `json:"id"`
	Key       string      `json:"key,omitempty"`
	Title     string      `json:"title"`
	Status    task.Status `json:"status,omitempty"`
	Priority  string      `json:"priority,omitempty"`
	Agent     string      `json:"agent,omitempty"` // who has it, or is the only one to get it
	ExpiresAt api.Time    `json:"expires_at,omitzero"`
	ClaimID   claim.ID    `json:"claim_id,omitempty"`
	Reason    string      `json:"reason,omitempty"` // why it cannot be claimed

	standing, urgency string // Status and Priority in the board's words
}

func taskOf(t api.TaskRef) Task {
	return Task{ID: t.ID, Key: line(t.Key), Title: line(t.Title), Status: t.Status, Priority: priority(t.Priority), standing: line(t.StatusWord()), urgency: line(priority(t.PriorityWord()))}
}

func listedTask(t api.Task) Task {
	out := taskOf(t.TaskRef)
	out.Agent, out.ExpiresAt, out.ClaimID, out.Reason = line(cmp.Or(t.AssignedTo, t.Agent)), t.ExpiresAt, t.ClaimID, line(t.Reason)
	return out
}

// heldTask returns the task of a claim.
func heldTask(c api.Claim) Task {
	out := taskOf(c.Task)
	out.Agent, out.ExpiresAt, out.ClaimID = line(c.Agent), c.ExpiresAt, c.ID
	return out
}

// priority returns a priority, or nothing for none.
func priority(p string) string {
	if p == "none" {
		return ""
	}
	return p
}

// taskLine describes a task in one line.
func taskLine(t Task) string {
	text := called(t)
	if t.urgency != "" {
		text += ", " + t.urgency
	}
	if t.Status != "" && t.Status != task.Open {
		text += ", " + t.standing
	}
	if t.Agent != "" {
		text += ", " + t.Agent + lasting(t.ExpiresAt)
	}
	return text
}

// called returns how a sentence names a task: by its title, and by the name that tools take, which
// is the shorter key if there is one.
func called(t Task) string {
	name := cmp.Or(t.Key, string(t.ID))
	if t.Title == "" {
		return name
	}
	return name + " “" + task.Brief(quotes.Replace(t.Title), maxTitle) + "”"
}

// quotes replaces the quotation marks that delimit a title, so that a title cannot end early.
var quotes = strings.NewReplacer("“", `"`, "”", `"`)

// maxTitle limits the characters of a title.
const maxTitle = 80

// goneText says that a claim ended without its agent's doing.
func goneText(c api.Claim) string {
	t := taskOf(c.Task)
	switch c.Outcome {
	case claim.EndLost, claim.EndOverridden, claim.EndSwept:
		return fmt.Sprintf("CLAIM LOST: %s is no longer yours: %s. Stop working on it.", called(t), why(c))
	}
	return fmt.Sprintf("NOTE: your claim on %s is over: %s.", called(t), why(c))
}

// why returns how a claim ended.
func why(c api.Claim) string {
	text := cmp.Or(strings.TrimSuffix(withoutCommands(line(c.Detail)), "."), string(c.Outcome))
	if !c.EndedAt.IsZero() {
		text += ", at " + timeOfDay(c.EndedAt.Time)
	}
	return text
}

// alsoText says that the agent holds a claim it did not know of.
func alsoText(c api.Claim) string {
	t := taskOf(c.Task)
	return fmt.Sprintf("NOTE: you hold %s%s.", called(t), lasting(c.ExpiresAt))
}

// lasting returns until when something lasts, as the end of a sentence.
func lasting(until api.Time) string {
	if until.IsZero() {
		return ""
	}
	text := " until " + timeOfDay(until.Time)
	if left := time.Until(until.Time); left > 0 {
		text += fmt.Sprintf(" (in %d min)", (left+time.Minute-1)/time.Minute)
	}
	return text
}

// timeOfDay formats a time of today as a time, any other with its date.
func timeOfDay(t time.Time) string {
	now := time.Now()
	t = t.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("Jan 2 15:04")
}

// line folds text from others into one line, without invisible characters.
func line(s string) string { return task.OneLine(s, unicode.ReplacementChar) }

// document returns JSON as a text for a model. Angle brackets are not escaped, so that tags in it
// can be seen and removed.
func document(v any) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(out.String()), err
}

// taskID parses the name of a task; empty for none.
func taskID(named string) (task.ID, error) {
	if named == "" {
		return "", nil
	}
	if id, err := task.ParseTaskID(named); err == nil {
		return id, nil
	}
	if key, ok := task.ParseKey(named); ok {
		return task.ID(key), nil
	}
	return "", usagef("%q names no task: want its id, its key such as T-3, or its URL", task.Brief(line(named), maxTitle))
}

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
		case e.Advice != "":
			p.RetryIn(retry)
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

// retry is when a model is told to ask a daemon again that stayed away.
const retry = 10 * time.Second
