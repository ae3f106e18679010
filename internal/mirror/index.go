package mirror

import (
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
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

func newIndex(tasks []task.Task) *index {
	before := func(a, b *task.Task) bool { return task.Before(*a, *b) < 0 }
	x := &index{
		rows:  make(map[task.ID]*row, len(tasks)),
		order: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}), // mu guards it
	}
	for _, t := range tasks {
		x.set(t)
	}
	x.publish()
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

// compare returns those readings that show something new. The tasks of others that are
// not outdated count as read from now on.
func (x *index) compare(read []reading) (news []reading) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range read {
		known := x.rows[r.ID]
		switch judge(known, r) {
		case changed:
			news = append(news, r)
		case confirmed:
			known.touch(r)
		}
	}
	return news
}

// put takes over what was read.
func (x *index) put(read []reading) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range read {
		x.set(r.Task).touch(r)
	}
	x.publish()
}

// remove drops tasks.
func (x *index) remove(ids []task.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		if r := x.rows[id]; r != nil {
			x.order.Delete(r.task)
			delete(x.rows, id)
		}
	}
	x.publish()
}

// readSince reports whether there is a reading of the task at s or later.
func (x *index) readSince(id task.ID, s stamp) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.rows[id]
	return r != nil && r.read >= s
}

// set puts a task into its row, which it returns, and into the order. x.mu is held.
func (x *index) set(t task.Task) *row {
	known := x.rows[t.ID]
	if known == nil {
		known = &row{}
		x.rows[t.ID] = known
	} else if task.Before(*known.task, t) != 0 { // it moves
		x.order.Delete(known.task)
	}
	known.task = &t
	x.order.Set(known.task)
	return known
}

// publish shows the changes to those who go through all tasks. x.mu is held.
func (x *index) publish() { x.offered.Store(x.order.Copy()) }

// doubts reports whether t, a query's row, shows something else than the page did when
// it was read, if that was after since, and nothing in the two tells that the row is
// newer: Notion keeps the time of the last edit to the minute only. Fields do not count:
// a formula may show something else at every reading.
func (x *index) doubts(t task.Task, since time.Time) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	known := x.rows[t.ID]
	if known == nil || !known.page.After(since) {
		return false
	}
	page := *known.task
	page.Fields, t.Fields = nil, nil
	return !same(page, t) && !newer(t, page)
}

// newer reports whether a query's row is surely of a later moment than the page was: it
// was edited in a later minute, or shows the end of the claim that the page showed.
func newer(row, page task.Task) bool {
	if row.Edited.After(page.Edited) {
		return true
	}
	held, ended := claim.ParseToken(page.Token), claim.ParseToken(row.Token)
	return held.ID != "" && ended.Done && !held.Done && !held.Void && ended.ID == held.ID
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
