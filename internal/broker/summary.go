package broker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// NothingError is the denial of the next task because none is ready, with what the
// unfinished ones wait for.
type NothingError struct {
	*claim.Denied
	Summary api.Summary
}

// Unwrap returns the denial.
func (e *NothingError) Unwrap() error { return e.Denied }

// summed adds to a denial what the tasks wait for, if none was ready.
func (b *Broker) summed(err error, agent string, f task.Filter) error {
	var denied *claim.Denied
	if !errors.As(err, &denied) || denied.Code != claim.CodeNothingReady {
		return err
	}
	said := *denied
	s := b.board().summary(agent, f, b.troubles.passed)
	said.Detail = nothingReady(s, !f.Empty()) + "; try again later, or wait for one"
	return &NothingError{&said, s}
}

// kept says what keeps the agent from a task, in the terms of a denial, and when the lease
// of who has it ends. The code is empty if the task is ready for the agent.
func (bd *board) kept(t task.Task, agent string) (code claim.Code, until time.Time) {
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
	case d.Code == "" && t.Status != task.Open && claim.Assignee(t) == "":
		return claim.CodeHeld, time.Time{} // its lease is over, and the next sweep opens it
	}
	return d.Code, time.Time{}
}

// summary counts what the unfinished tasks that the filter selects wait for, and how many
// others are ready. passed reports whether a task is passed over for now.
func (bd *board) summary(agent string, f task.Filter, passed func(task.ID) bool) api.Summary {
	var s api.Summary
	for t := range bd.tasks {
		if t.Trashed || t.Status.Finished() {
			continue
		}
		match := f.Match(t)
		code, until := bd.kept(t, agent)
		switch {
		case !match && code == "":
			s.Filtered++
		case !match:
		case code == claim.CodeHeld:
			s.Held++
			if until.After(bd.now) && (s.NextLeaseEndsAt.IsZero() || until.Before(s.NextLeaseEndsAt.Time)) {
				s.NextLeaseEndsAt = api.Time{Time: until}
			}
		case code == claim.CodeReserved:
			s.Assigned++
		case code == claim.CodeBlockedByDependency:
			s.Dependencies++
		case t.Status == task.Blocked:
			s.Blocked++
		case code != "":
			s.Other++
		case passed(t.ID):
			s.CoolingOff++
		}
	}
	return s
}

// nothingReady says that no task is ready, and why. filtered says that not any would do.
func nothingReady(s api.Summary, filtered bool) string {
	var parts []string
	for _, part := range []struct {
		n         int
		one, more string
	}{
		{s.Held, "is held", "are held"},
		{s.Blocked, "is blocked", "are blocked"},
		{s.Dependencies, "waits for others", "wait for others"},
		{s.Assigned, "is assigned to somebody else", "are assigned to others"},
		{s.CoolingOff, "is passed over because of its page", "are passed over because of their pages"},
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
