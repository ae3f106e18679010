package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
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
func (b *Broker) summed(ctx context.Context, err error, r request, f task.Filter) error {
	denied, isDenied := errors.AsType[*claim.Denied](err)
	if !isDenied || denied.Code != claim.CodeNothingReady {
		return err
	}
	summed := *denied
	s := b.summary(ctx, r.agent, r.at, f)
	summed.Detail = nothingReady(s, !f.Empty()) + "; try again later, or wait for one"
	return &NothingError{&summed, s}
}

// sum returns what the unfinished tasks that the filter selects wait for, as of the last change.
func (b *Broker) sum(f task.Filter) sum {
	return b.sums.of(f, func() sum { return b.board().sum(f, b.troubles.passed) })
}

// summary says what the unfinished tasks that the filter selects wait for.
func (b *Broker) summary(ctx context.Context, agent string, at workplace, f task.Filter) api.Summary {
	all := b.sum(f)
	out := all.Summary
	bd := b.presentAt(at)
	for _, id := range all.assigned[agent] { // these are this agent's, not somebody else's
		out.Assigned--
		if t, ok := bd.Task(id); ok {
			code, until := bd.obstacle(t, agent)
			count(&out, t, code, until, bd.now)
		}
	}
	withheld, _ := b.withheld(ctx, agent) // an answer that cannot count them is better than none
	for id := range withheld {
		if t, ok := bd.Task(id); ok && f.Match(t) && bd.open(t, "") {
			out.TakenBack++
		}
	}
	bd.withheld = withheld
	out.Touched = b.touched(bd, agent, f)
	return out
}

// touched counts the tasks, selected by the filter, that would be ready for the agent if they touched
// nothing.
func (b *Broker) touched(bd *board, agent string, f task.Filter) (n int) {
	if bd.touched(agent).Empty() {
		return 0
	}
	assigned, open := b.offered(agent, f)
	for _, list := range []ready.List{assigned, open} {
		for t := range list.All() {
			if f.Match(t) && bd.open(t, agent) && !bd.ready(t, agent) {
				n++
			}
		}
	}
	return n
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
	case d.Code == "" && bd.cameBack(t, agent) != nil:
		return claim.CodeReserved, time.Time{}
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
		{s.Touched, "touches what others have", "touch what others have"},
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

// sumTTL is how long a sum is valid at most, because leases end.
const sumTTL = time.Second

// maxStuck is how many of the stuck tasks are named.
const maxStuck = 3

// mostSums limits the filters with a cached sum.
const mostSums = 64

// sum counts what the unfinished tasks that a filter selects wait for, whoever asks.
type sum struct {
	api.Summary
	// assigned lists the tasks counted as assigned, by agent.
	assigned map[string][]task.ID
	stuck    api.Stuck
	made     time.Time // by this machine's clock
}

// sums caches sums of the board until something changes: many requests that ask again while nothing
// is ready read the board once. It is safe for concurrent use.
type sums struct {
	mu   sync.Mutex
	kept map[string]sum // by filter
	turn uint64         // counts changes
}

// changed drops all sums.
func (s *sums) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	clear(s.kept)
}

// of returns the sum for a filter. It calls add if the sum is not cached.
func (s *sums) of(f task.Filter, add func() sum) sum {
	key := keyOf(f)
	s.mu.Lock()
	turn, kept := s.turn, s.kept[key]
	s.mu.Unlock()
	if !kept.made.IsZero() && time.Since(kept.made) < sumTTL {
		return kept
	}
	kept = add()
	kept.made = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn == s.turn {
		if s.kept == nil || len(s.kept) >= mostSums {
			s.kept = map[string]sum{}
		}
		s.kept[key] = kept
	}
	return kept
}

// keyOf returns the cache key of a filter.
func keyOf(f task.Filter) string {
	priority := ""
	if f.Priority != nil {
		priority = f.Priority.String()
	}
	return fmt.Sprintf("%s %q %q", priority, f.Where, f.Words)
}

// sum counts what the unfinished tasks that the filter selects wait for, and the other ready tasks.
// passed reports whether a task is passed over for now.
func (bd *board) sum(f task.Filter, passed func(task.ID) bool) sum {
	s := sum{assigned: make(map[string][]task.ID)}
	for t := range bd.tasks {
		if t.Trashed || t.Status.Finished() {
			continue
		}
		if t.Status == task.Open {
			s.stuck.Open++
		}
		match := f.Match(t)
		code, until := bd.obstacle(t, "")
		switch {
		case !match && code == "":
			s.Filtered++
		case !match:
		case code == "" && passed(t.ID):
			s.CoolingOff++
		default:
			if code == claim.CodeBlockedByDependency && bd.waitsInVain(t) != nil {
				s.Stuck++
				if s.stuck.Count++; len(s.stuck.Titles) < maxStuck {
					s.stuck.Titles = append(s.stuck.Titles, api.Collapse(name(t)))
				}
			}
			count(&s.Summary, t, code, until, bd.now)
			to := claim.Assignee(t)
			if r, is := bd.returned(t); is && to == "" {
				to = r.to
			}
			if to != "" && code == claim.CodeReserved {
				s.assigned[to] = append(s.assigned[to], t.ID)
			}
		}
	}
	return s
}

// count adds a task to the summary. code is its obstacle, empty if it is ready.
func count(s *api.Summary, t task.Task, code claim.Code, until, now time.Time) {
	switch {
	case code == claim.CodeHeld:
		s.Held++
		if until.After(now) && (s.NextLeaseEndsAt.IsZero() || until.Before(s.NextLeaseEndsAt.Time)) {
			s.NextLeaseEndsAt = api.Time{Time: until}
		}
	case code == claim.CodeReserved:
		s.Assigned++
	case code == claim.CodeBlockedByDependency:
		s.Dependencies++
	case code == claim.CodeNotOffered:
		s.NotOffered++
	case t.Status == task.Blocked:
		s.Blocked++
	case t.Status == task.Review:
		s.Review++
	case t.Status == task.Failed:
		s.Failed++
	case code != "":
		s.Other++
	}
}
