package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// NothingError is the denial of the next task because none is ready. Summary says what the
// unfinished ones wait for.
type NothingError struct {
	*claim.Denied
	Summary api.Summary
}

// Unwrap returns the denial.
func (e *NothingError) Unwrap() error { return e.Denied }

// summed adds the summary to a denial because no task was ready. It returns other errors as they
// are.
func (b *Broker) summed(ctx context.Context, err error, agent string, f task.Filter) error {
	denied, isDenied := errors.AsType[*claim.Denied](err)
	if !isDenied || denied.Code != claim.CodeNothingReady {
		return err
	}
	said := *denied
	s := b.summary(ctx, agent, f)
	said.Detail = nothingReady(s, !f.Empty()) + "; try again later, or wait for one"
	return &NothingError{&said, s}
}

// sum returns what the unfinished tasks that the filter selects wait for, as of the last change.
func (b *Broker) sum(f task.Filter) sum {
	return b.sums.of(f, func() sum { return b.board().sum(f, b.troubles.passed) })
}

// summary says what the unfinished tasks that the filter selects wait for.
func (b *Broker) summary(ctx context.Context, agent string, f task.Filter) api.Summary {
	all := b.sum(f)
	out := all.Summary
	bd := b.present()
	for _, id := range all.assigned[agent] { // these are this agent's, not somebody else's
		out.Assigned--
		if t, ok := bd.Task(id); ok {
			code, until := bd.obstacle(t, agent)
			count(&out, t, code, until, bd.now)
		}
	}
	kept, _ := b.kept(ctx, agent) // an answer that cannot count them is better than none
	for id := range kept {
		if t, ok := bd.Task(id); ok && f.Match(t) && bd.ready(t, "") {
			out.TakenBack++
		}
	}
	return out
}

// obstacle returns why the agent cannot claim a task, as the code of a denial, and when the present
// lease ends. The code is empty if the task is ready for the agent.
func (bd *board) obstacle(t task.Task, agent string) (code claim.Code, until time.Time) {
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Held {
			until = c.ExpiresAt()
		}
		return claim.CodeHeld, until
	}
	d := claim.Decide(t, agent, bd.waitsFor(t), bd.now, bd.policy)
	switch {
	case d.Code == claim.CodeHeld:
		return d.Code, d.LeaseEnd
	case d.Code == "" && t.Status != task.Open && claim.AssignedAgent(t) == "":
		return claim.CodeHeld, time.Time{} // its lease has ended, and the next sweep opens it
	}
	return d.Code, time.Time{}
}

// nothingReady says why no task is ready. filtered says that the request has a filter.
func nothingReady(s api.Summary, filtered bool) string {
	var parts []string
	never := ""
	if s.Stuck > 0 {
		never = fmt.Sprintf(" (%d can never become ready: dibs ready --why says why)", s.Stuck)
	}
	for _, part := range []struct {
		n         int
		one, more string
	}{
		{s.Held, "is held", "are held"},
		{s.Blocked, "is blocked", "are blocked"},
		{s.Dependencies, "waits for others" + never, "wait for others" + never},
		{s.Assigned, "is assigned to somebody else", "are assigned to others"},
		{s.NotOffered, "is not for agents", "are not for agents"},
		{s.TakenBack, "was taken back from the agent within the hour", "were taken back from the agent within the hour"},
		{s.CoolingOff, "is passed over because of its page", "are passed over because of their pages"},
		{s.Review, "is to be reviewed", "are to be reviewed"},
		{s.Failed, "has failed", "have failed"},
		{s.Other, "cannot be claimed as it is", "cannot be claimed as they are"},
	} {
		switch {
		case part.n == 1:
			parts = append(parts, "1 "+part.one)
		case part.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.more))
		}
	}
	text := "no task is ready"
	if filtered {
		text = "no task that matches is ready"
	}
	if len(parts) == 0 {
		parts = append(parts, "none is unfinished")
	}
	text += ": " + strings.Join(parts, ", ")
	switch {
	case s.Filtered == 1:
		text += "; 1 other is ready"
	case s.Filtered > 1:
		text += fmt.Sprintf("; %d others are ready", s.Filtered)
	}
	return text
}
