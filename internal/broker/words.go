package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// SetFields replaces the names of the fields by which tasks can be selected, beyond those that every
// task has.
func (b *Broker) SetFields(names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fields = names
	b.sums.changed()
}

// filter parses a filter. The error is an *InvalidError.
func (b *Broker) filter(f api.Filter) (task.Filter, error) {
	var out task.Filter
	if f.Priority != "" {
		word, err := b.words.Priority(f.Priority)
		if err != nil {
			return out, &InvalidError{Detail: fmt.Sprintf("priority: %v", err)}
		}
		if word.Only {
			out.Where = append(out.Where, task.Condition{Field: "priority", Value: word.Name})
		} else {
			out.Priority = &word.Rank
		}
	}
	b.mu.Lock()
	fields := b.fields
	b.mu.Unlock()
	for _, where := range f.Where {
		c, err := task.ParseCondition(where, fields)
		if err != nil {
			return out, &InvalidError{Detail: fmt.Sprintf("where: %v", err)}
		}
		if s, err := b.words.Status(c.Value); err == nil && c.Field == "status" && !slices.Contains(fields, c.Field) {
			c.Value = string(s)
		}
		out.Where = append(out.Where, c)
	}
	out.Words = strings.Fields(f.Text)
	return out, nil
}

// status parses the status in that part of a request; empty is any. The error is an *InvalidError.
func (b *Broker) status(part, word string) (task.Status, error) {
	if word == "" {
		return "", nil
	}
	s, err := b.words.Status(word)
	if err != nil {
		return "", &InvalidError{Detail: fmt.Sprintf("%s: %v", part, err)}
	}
	return s, nil
}

// each translates a slice. It never returns nil, so that JSON says [].
func each[From, To any](from []From, translate func(From) To) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = translate(v)
	}
	return to
}

// orEmpty turns nil into an empty slice, so that JSON says [].
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (b *Broker) age(a api.Age) api.Age {
	a.SyncedAt = b.time(a.SyncedAt.Time)
	return a
}

func (b *Broker) claim(c claim.Hold) api.Claim {
	out := api.Claim{
		ID: c.ID, Task: b.ref(c.Task), Agent: c.Agent, State: c.State,
		ClaimedAt: b.time(c.ClaimedAt),
		Fence:     c.Fence, Usage: api.NewUsage(c.Used),
		Progress: c.Progress,
		Override: c.Former != "", Former: c.Former, Unheard: c.Finish != nil && c.Finish.Unheard,
		Outcome: c.Ending, EndedAt: b.time(c.Ended), Detail: c.Detail,
	}
	if !c.ClaimedAt.IsZero() {
		out.ExpiresAt, out.KeptUntil = b.time(c.ExpiresAt()), b.time(c.KeptUntil())
	}
	if end := c.Said(); end != nil {
		out.Summary, out.Evidence = end.Summary, end.Evidence
	}
	if c.State == claim.Finishing {
		if c.Finish != nil {
			out.Outcome = c.Finish.Ending()
		}
		if c.Taken() {
			out.Detail = c.Finish.Taking()
		}
		out.Owed = b.owed(c)
	}
	return out
}

// owed says what is uncertain about a claim while a write for it is still owed to Notion.
func (b *Broker) owed(c claim.Hold) api.Owed {
	if time.Now().Before(b.Local(c.ExpiresAt())) {
		return api.Owed{Pending: true, Unknown: "whether a person has taken the task, or another agent will once the lease is over"}
	}
	return api.Owed{Pending: true, Unknown: "whether another agent or a person has taken the task: the lease is over"}
}

// owedError says that a request was accepted, but Notion does not have it yet.
type owedError struct {
	claim claim.Hold
	error
}

// answer converts a claim for the caller. An *owedError counts as success: the claim then says what
// Notion is still owed.
func (b *Broker) answer(c claim.Hold, err error) (api.Claim, error) {
	if owed, ok := errors.AsType[*owedError](err); ok {
		out := b.claim(owed.claim)
		out.Detail, out.Owed = api.Saying(owed), b.owed(owed.claim)
		return out, nil
	}
	if err != nil {
		return api.Claim{}, err
	}
	return b.claim(c), nil
}

// maxAttempt limits the characters of a text about an earlier attempt.
const maxAttempt = 1000

// AddAttempts adds to the tasks of claims what became of the earlier claims on them, the newest
// first. A claim works without them: if the journal cannot be read, they are left out.
func (b *Broker) AddAttempts(ctx context.Context, claims ...*api.Claim) {
	// An answer waits a moment for them, and is not refused without them.
	ctx, cancel := context.WithTimeout(claim.Patience(ctx, nil), claim.Silence)
	defer cancel()
	for _, c := range claims {
		earlier, err := b.earlier(ctx, c.Task.ID)
		if err != nil {
			return
		}
		c.Task.Attempts = b.attempts(slices.DeleteFunc(earlier, func(e claim.Earlier) bool { return !e.Precedes(c.ID) }))
	}
}

func (b *Broker) earlier(ctx context.Context, id task.ID) ([]claim.Earlier, error) {
	earlier, err := b.journal.Earlier(ctx, id)
	if err != nil {
		b.log.Warn("a task is shown without its earlier attempts", claim.AttrTask, id, claim.AttrError, err)
	}
	return earlier, err
}

func (b *Broker) attempts(earlier []claim.Earlier) []api.Attempt {
	return each(earlier, func(f claim.Earlier) api.Attempt {
		return api.Attempt{Agent: api.Collapse(f.Agent), At: b.time(f.At), Outcome: f.Outcome, Text: ofAttempt(f.Text), Files: each(f.Files, api.Collapse)}
	})
}

// ofAttempt makes a text fit for an attempt.
func ofAttempt(text string) string {
	text, cut := beginning(task.Plain(text), maxAttempt)
	if cut > 0 {
		text += "…"
	}
	return text
}

// ref names a task in an answer.
func (b *Broker) ref(t task.Task) api.TaskRef { return api.NewTaskRef(t, b.words) }

// beginning cuts a text to that many characters, at the end of a line if one is near. It also
// returns how many characters were dropped.
func beginning(text string, fits int) (kept string, cut int) {
	if len(text) <= fits {
		return text, 0
	}
	all := utf8.RuneCountInString(text)
	if all <= fits {
		return text, 0
	}
	at := 0
	for range fits {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	if line := strings.LastIndexByte(text[:at], '\n'); line >= at-at/10 {
		at = line + 1
	}
	return text[:at], all - utf8.RuneCountInString(text[:at])
}

func ageOf(s mirror.Standing) api.Age { return api.NewAge(s.SyncedAt, s.Old, s.Stale) }
