package broker

import (
	"fmt"
	"strings"
	"sync"

	"dibs/internal/api"
	"dibs/internal/clock"
	"dibs/internal/task"
)

// SetFields changes the names of the fields that tasks have, beside those that every task
// has.
func (b *Broker) SetFields(names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fields = names
	b.sums.changed()
}

// filter reads a filter. The error is an *InvalidError.
func (b *Broker) filter(f api.Filter) (task.Filter, error) {
	var out task.Filter
	if f.Priority != "" {
		p, err := task.ParsePriority(f.Priority)
		if err != nil {
			return out, &InvalidError{Detail: fmt.Sprintf("priority: %v", err)}
		}
		out.Priority = &p
	}
	b.mu.Lock()
	fields := b.fields
	b.mu.Unlock()
	for _, where := range f.Where {
		c, err := task.ParseCondition(where, fields)
		if err != nil {
			return out, &InvalidError{Detail: fmt.Sprintf("where: %v", err)}
		}
		out.Where = append(out.Where, c)
	}
	out.Words = strings.Fields(f.Text)
	return out, nil
}

// waiters are the requests that wait for a task that a filter selects. It is safe for
// concurrent use, and calls nothing.
type waiters struct {
	mu  sync.Mutex
	all map[*waiter]struct{}
}

type waiter struct {
	agent  string
	filter task.Filter
	fresh  clock.Bell // rings once a task became ready that it waits for
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

// tell wakes those that wait for a task like t, which is ready for that agent, or for any.
func (w *waiters) tell(t task.Task, agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		if (agent == "" || agent == one.agent) && one.filter.Match(t) {
			one.fresh.Ring()
		}
	}
}

// begin returns what rings once a task became ready since.
func (w *waiter) begin() <-chan struct{} {
	w.fresh.Quiet()
	return w.fresh
}
