package mirror

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/task"

	"github.com/tidwall/btree"
)

// index holds the rows of the mirror in memory, so that a question costs neither
// a query nor decoding. It is safe for concurrent use; changes are made by one
// caller at a time.
type index struct {
	mu   sync.RWMutex
	rows map[task.ID]*row
	// order has the tasks in the order in which they are offered. A task is never
	// changed once it is in there; a new one takes its place.
	order *btree.BTreeG[*task.Task]
	// offered is a copy of order that never changes, and shares most of it. Readers
	// go through it without a lock.
	offered atomic.Pointer[btree.BTreeG[*task.Task]]
}

// row is a task as of its last reading.
type row struct {
	task *task.Task
	read stamp
	// page is when the page itself was last read, rather than a query's row, by
	// this machine's clock; zero if it never was.
	page time.Time
}

// stamp orders readings: one that was begun later has a higher one.
type stamp int64

func newIndex(tasks []task.Task) *index {
	before := func(a, b *task.Task) bool { return task.Before(*a, *b) < 0 }
	x := &index{
		rows:  make(map[task.ID]*row, len(tasks)),
		order: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}), // mu guards it
	}
	changes := make([]task.Change, len(tasks))
	for i, t := range tasks {
		changes[i].After = t
	}
	x.take(changes, nil)
	return x
}

func (x *index) get(id task.ID) (task.Task, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r := x.rows[id]; r != nil {
		return *r.task, true
	}
	return task.Task{}, false
}

func (x *index) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.rows)
}

// all yields the tasks of this moment, in the order in which they are offered.
func (x *index) all() iter.Seq[task.Task] {
	offered := x.offered.Load()
	return func(yield func(task.Task) bool) {
		offered.Scan(func(t *task.Task) bool { return yield(*t) })
	}
}

// compare marks those of the tasks that are as known as read at s, and returns
// the changes of the others. A task of which there is a later reading is left
// alone, and so is one that a query shows as it was before its last edit. pages
// says that pages were read, not a query's rows.
func (x *index) compare(tasks []task.Task, s stamp, pages bool) (changed []task.Change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range tasks {
		known := x.rows[t.ID]
		switch {
		case known == nil:
			changed = append(changed, task.Change{After: t})
		case known.read > s || !pages && t.Edited.Before(known.task.Edited):
		case same(*known.task, t):
			known.read = s
			if pages {
				known.page = time.Now()
			}
		default:
			changed = append(changed, task.Change{Before: known.task, After: t})
		}
	}
	return changed
}

// put takes over changes that were read at s.
func (x *index) put(changed []task.Change, s stamp, pages bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.take(changed, nil)
	for _, c := range changed {
		r := x.rows[c.After.ID]
		r.read = s
		if pages {
			r.page = time.Now()
		}
	}
}

// remove drops tasks.
func (x *index) remove(ids []task.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.take(nil, ids)
}

// readSince reports whether there is a reading of the task at s or later.
func (x *index) readSince(id task.ID, s stamp) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.rows[id]
	return r != nil && r.read >= s
}

// take makes the changes, with x.mu held.
func (x *index) take(changed []task.Change, gone []task.ID) {
	for _, id := range gone {
		if r := x.rows[id]; r != nil {
			x.order.Delete(r.task)
			delete(x.rows, id)
		}
	}
	for _, c := range changed {
		r := x.rows[c.After.ID]
		after := c.After // on its own, or it would keep all its predecessors
		if r == nil {
			r = &row{}
			x.rows[c.After.ID] = r
		} else if task.Before(*r.task, after) != 0 { // it moves
			x.order.Delete(r.task)
		}
		r.task = &after
		x.order.Set(r.task)
	}
	x.offered.Store(x.order.Copy())
}

// doubts reports whether t, a query's row, contradicts the page as it was read
// since then. Within the minute to which Notion keeps the time of an edit, nothing
// in them tells which one is newer.
func (x *index) doubts(t task.Task, since time.Time) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	known := x.rows[t.ID]
	return known != nil && known.page.After(since) && !same(*known.task, t)
}

// missing returns the tasks that have no reading at s or later: those that a
// listing begun at s does not have.
func (x *index) missing(s stamp) (tasks []task.Task) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for r := range maps.Values(x.rows) {
		if r.read < s {
			tasks = append(tasks, *r.task)
		}
	}
	task.Sort(tasks)
	return tasks
}

// page is when the page of a task was last read; zero if it never was.
func (x *index) page(id task.ID) time.Time {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r := x.rows[id]; r != nil {
		return r.page
	}
	return time.Time{}
}

// same reports whether two readings show the same.
func same(a, b task.Task) bool {
	if !slices.Equal(a.DependsOn, b.DependsOn) {
		return false
	}
	a.DependsOn, b.DependsOn = nil, nil
	return reflect.DeepEqual(a, b)
}
