package clock

import (
	"cmp"
	"iter"
	"time"

	"dibs/internal/kit/btree"
)

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
