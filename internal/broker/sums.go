package broker

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

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
					s.stuck.Titles = append(s.stuck.Titles, api.Collapse(cmp.Or(t.Title, t.Key, string(t.ID))))
				}
			}
			count(&s.Summary, t, code, until, bd.now)
			if to := claim.Assignee(t); to != "" && code == claim.CodeReserved {
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
