package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"dibs/internal/api"
	"dibs/internal/kit/clock"
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
func (b *Broker) status(part, said string) (task.Status, error) {
	if said == "" {
		return "", nil
	}
	s, err := b.words.Status(said)
	if err != nil {
		return "", &InvalidError{Detail: fmt.Sprintf("%s: %v", part, err)}
	}
	return s, nil
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

// begin drops an earlier wake-up, and returns what rings once a wanted task became ready since.
func (w *waiter) begin() <-chan struct{} {
	w.fresh.Quiet()
	return w.fresh
}
