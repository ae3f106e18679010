package clock

import (
	"cmp"
	"context"
	"iter"
	"time"

	"dibs/internal/kit/btree"
)

// Bell wakes whoever receives from it. It keeps one ring for who is not receiving just then; further
// ones are the same. Any number may ring it at the same time.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring rings the bell, and does not wait until it is heard.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Quiet forgets a ring that nobody has heard.
func (b Bell) Quiet() {
	select {
	case <-b:
	default:
	}
}

// UntilWoken is the wait of a loop that is woken whenever there is something to do.
const UntilWoken = time.Hour

// Loop runs a function again and again: when it is woken, and at the latest after the wait that the
// last turn returned. Wake is safe for concurrent use; Run or Until runs once.
type Loop struct {
	first time.Duration
	turn  func(context.Context) (wait time.Duration)
	woken Bell
}

// NewLoop returns a loop. Its first turn comes after first, or when it is woken.
func NewLoop(first time.Duration, turn func(context.Context) (wait time.Duration)) *Loop {
	return &Loop{first: first, turn: turn, woken: NewBell()}
}

// Wake causes one more turn: now if the loop waits, else after the current turn.
func (l *Loop) Wake() { l.woken.Ring() }

// Run runs turns until ctx ends.
func (l *Loop) Run(ctx context.Context) { l.Until(ctx, ctx.Done()) }

// Until runs turns until stop is closed. A turn under way then goes on; only the end of ctx cuts it
// off.
func (l *Loop) Until(ctx context.Context, stop <-chan struct{}) {
	for wait := l.first; l.await(wait, stop); {
		wait = l.turn(ctx)
	}
}

// await waits for wait, or until the loop is woken. It returns false if stop is closed.
func (l *Loop) await(wait time.Duration, stop <-chan struct{}) bool {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-l.woken:
		case <-timer.C:
		case <-stop:
		}
	}
	select {
	case <-stop:
		return false
	default:
		return true
	}
}

// Agenda has keys, each with a moment, in the order of the moments. Its zero value is not usable,
// see NewAgenda. It is not safe for concurrent use.
type Agenda[K cmp.Ordered] struct {
	moments map[K]time.Time
	order   btree.Tree[entry[K]]
}

type entry[K cmp.Ordered] struct {
	at  time.Time
	key K
}

// NewAgenda returns an empty agenda.
func NewAgenda[K cmp.Ordered]() *Agenda[K] {
	earlier := func(a, b entry[K]) bool { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key, b.key)) < 0 }
	return &Agenda[K]{moments: make(map[K]time.Time), order: btree.New(earlier)}
}

// Set sets the moment of a key, in place of any that it had.
func (a *Agenda[K]) Set(key K, at time.Time) {
	a.Remove(key)
	a.moments[key] = at
	a.order.Set(entry[K]{at, key})
}

// Remove takes a key off the agenda, if it is on it.
func (a *Agenda[K]) Remove(key K) {
	if at, ok := a.moments[key]; ok {
		a.order.Delete(entry[K]{at, key})
		delete(a.moments, key)
	}
}

// From yields the keys with a moment at start or later, by moment and then by key. The agenda must
// not be changed meanwhile.
func (a *Agenda[K]) From(start time.Time) iter.Seq2[K, time.Time] {
	return func(yield func(K, time.Time) bool) {
		first := entry[K]{at: start}
		a.order.Ascend(first, func(e entry[K]) bool { return yield(e.key, e.at) })
	}
}

// Len returns the number of keys.
func (a *Agenda[K]) Len() int { return len(a.moments) }

// First returns the key with the earliest moment; false if there is none.
func (a *Agenda[K]) First() (K, time.Time, bool) {
	e, ok := a.order.Min()
	return e.key, e.at, ok
}
