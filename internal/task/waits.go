package task

import (
	"iter"
	"maps"
	"slices"
)

// Links has, for each task, the tasks that wait for it. It is not safe for concurrent use.
type Links struct {
	on map[ID][]ID
	by map[ID]map[ID]struct{}
}

// NewLinks returns no links.
func NewLinks() Links { return Links{make(map[ID][]ID), make(map[ID]map[ID]struct{})} }

// Set replaces the tasks that a task waits for, and returns the former ones.
func (l Links) Set(id ID, on []ID) (before []ID) {
	before = l.on[id]
	for _, other := range before {
		delete(l.by[other], id)
		if len(l.by[other]) == 0 {
			delete(l.by, other)
		}
	}
	if delete(l.on, id); len(on) > 0 {
		l.on[id] = on
	}
	for _, other := range on {
		if l.by[other] == nil {
			l.by[other] = make(map[ID]struct{})
		}
		l.by[other][id] = struct{}{}
	}
	return before
}

// By yields the tasks that wait for a task, in no order.
func (l Links) By(id ID) iter.Seq[ID] { return maps.Keys(l.by[id]) }

// MostUnblocks is the highest count of Waits. Beyond it, more makes no difference, and a change
// need not be followed through the whole board.
const MostUnblocks = 25

// Waits counts for each task the unfinished tasks that wait for it, directly or for another that
// does, up to MostUnblocks. It is not safe for concurrent use.
type Waits struct {
	links Links
	count map[ID]int // of those that are not zero
}

// NewWaits returns the counts of no tasks.
func NewWaits() *Waits { return &Waits{NewLinks(), make(map[ID]int)} }

// Unblocks returns the count of a task, which is zero once it is over.
func (w *Waits) Unblocks(t Task) int {
	if t.over() {
		return 0
	}
	return w.count[t.ID]
}

// Set takes in a task that is new or has changed. It returns the tasks whose counts have changed.
func (w *Waits) Set(t Task) (moved []ID) {
	on := t.Awaited()
	if t.over() {
		on = nil
	}
	if slices.Equal(on, w.links.on[t.ID]) {
		return nil
	}
	before := w.links.Set(t.ID, on)
	// One change gives a task more that wait for it, or fewer, never both. So a count that stays
	// is one of the same tasks, or at its limit, and the tasks beyond keep theirs, too.
	todo := append(append([]ID{}, before...), on...)
	done := make(map[ID]bool)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if done[id] {
			continue
		}
		done[id] = true
		n := w.waiting(id)
		if n == w.count[id] {
			continue
		}
		if w.count[id] = n; n == 0 {
			delete(w.count, id)
		}
		moved = append(moved, id)
		todo = append(todo, w.links.on[id]...)
	}
	return moved
}

// waiting counts the tasks that wait for a task.
func (w *Waits) waiting(id ID) int {
	if len(w.links.by[id]) == 0 {
		return 0
	}
	seen := map[ID]struct{}{id: {}}
	todo := []ID{id}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for by := range w.links.By(next) {
			if _, ok := seen[by]; ok {
				continue
			}
			if seen[by] = struct{}{}; len(seen) > MostUnblocks {
				return MostUnblocks
			}
			todo = append(todo, by)
		}
	}
	return len(seen) - 1
}
