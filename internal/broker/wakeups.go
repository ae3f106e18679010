package broker

import (
	"sync"
	"time"

	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// signal wakes everybody who waits for the next change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed by the next fire.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// waiters are the requests that wait for tasks selected by a filter. It is safe for concurrent use,
// and calls no other code.
type waiters struct {
	mu  sync.Mutex
	all map[*waiter]struct{}
}

type waiter struct {
	agent  string
	filter task.Filter
	fresh  clock.Bell // rings once a wanted task became ready
}

func (w *waiters) add(agent string, f task.Filter) *waiter {
	one := &waiter{agent, f, clock.NewBell()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[*waiter]struct{})
	}
	w.all[one] = struct{}{}
	return one
}

func (w *waiters) remove(one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

// wake wakes the requests that t satisfies. t is ready for that agent, or, if empty, for any.
func (w *waiters) wake(t task.Task, agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		if (agent == "" || agent == one.agent) && one.filter.Match(t) {
			one.fresh.Ring()
		}
	}
}

// wakeAll wakes all requests: a task that was ready before may not be in anybody's way any more.
func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		one.fresh.Ring()
	}
}

// begin drops an earlier wake-up, and returns what rings once a wanted task became ready since.
func (w *waiter) begin() <-chan struct{} {
	w.fresh.Quiet()
	return w.fresh
}

// recheck is how often a waiting request tries again although nothing seems to have changed: a
// lease may have ended.
const recheck = 15 * time.Second
