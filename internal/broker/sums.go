package broker

import (
	"fmt"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// sumsKept is how long a sum of the board is good for at the most. Leases end meanwhile.
const sumsKept = time.Second

// mostSums is how many filters are remembered that the board was summed up for.
const mostSums = 64

// sum is what the unfinished tasks wait for that a filter selects, whoever asks.
type sum struct {
	api.Summary
	// assigned has the tasks, among those counted as such, that an agent may claim.
	assigned map[string][]task.ID
	made     time.Time // by this machine's clock
}

// sums remembers sums of the board until something changes: many who ask again and again
// while nothing is ready cost one look at the board. It is safe for concurrent use.
type sums struct {
	mu   sync.Mutex
	kept map[string]sum // by filter
	turn uint64         // how often something changed
}

// changed forgets all sums.
func (s *sums) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	clear(s.kept)
}

// of returns the sum for a filter, which add makes if it is not remembered.
func (s *sums) of(f task.Filter, add func() sum) sum {
	key := keyOf(f)
	s.mu.Lock()
	turn, kept := s.turn, s.kept[key]
	s.mu.Unlock()
	if !kept.made.IsZero() && time.Since(kept.made) < sumsKept {
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

// keyOf tells filters apart.
func keyOf(f task.Filter) string {
	priority := ""
	if f.Priority != nil {
		priority = f.Priority.String()
	}
	return fmt.Sprintf("%s %q %q", priority, f.Where, f.Words)
}

// sum counts what the unfinished tasks that the filter selects wait for, and how many
// others are ready. passed reports whether a task is passed over for now.
func (bd *board) sum(f task.Filter, passed func(task.ID) bool) sum {
	s := sum{assigned: make(map[string][]task.ID)}
	for t := range bd.tasks {
		if t.Trashed || t.Status.Finished() {
			continue
		}
		match := f.Match(t)
		code, until := bd.kept(t, "")
		switch {
		case !match && code == "":
			s.Filtered++
		case !match:
		case code == "" && passed(t.ID):
			s.CoolingOff++
		default:
			count(&s.Summary, t, code, until, bd.now)
			if to := claim.Assignee(t); to != "" && code == claim.CodeReserved {
				s.assigned[to] = append(s.assigned[to], t.ID)
			}
		}
	}
	return s
}

// count adds a task to what others wait for. code says what keeps it; it is empty if the
// task is ready.
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
