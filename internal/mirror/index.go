package mirror

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/btree"
	"dibs/internal/task"
)

// reading is a task as it was read.
type reading struct {
	task.Task
	at stamp
	// page is set if the page itself was read, rather than a row of a query.
	page bool
}

// stamp orders readings: a reading that began later has a higher one.
type stamp int64

// row is a task as of its last reading.
type row struct {
	task *task.Task
	read stamp
	// page is when the page itself was last read, by this machine's clock; zero if
	// it never was.
	page time.Time
}

// touch notes that the task was read.
func (w *row) touch(r reading) {
	w.read = r.at
	if r.page {
		w.page = time.Now()
	}
}

// verdict is what a reading means for the mirror.
type verdict int

const (
	outdated verdict = iota // it says nothing: the row is from a later reading
	confirmed
	changed
)

// judge compares a reading with the row of its task, nil if there is none. A query may show a
// task as it was before its last edit.
func judge(known *row, r reading) verdict {
	switch {
	case known == nil:
		return changed
	case known.read > r.at, !r.page && r.Edited.Before(known.task.Edited):
		return outdated
	case same(*known.task, r.Task):
		return confirmed
	}
	return changed
}

// same reports whether two readings show the same.
func same(a, b task.Task) bool {
	if !slices.Equal(a.DependsOn, b.DependsOn) || !slices.Equal(a.SubItems, b.SubItems) {
		return false
	}
	a.DependsOn, b.DependsOn, a.SubItems, b.SubItems = nil, nil, nil, nil
	a.Unblocks, b.Unblocks = 0, 0 // it is not read
	return reflect.DeepEqual(a, b)
}

// index has the rows of the mirror in memory, so that a read costs neither a query nor
// decoding. It is safe for concurrent reads; one caller at a time may change it.
type index struct {
	mu   sync.RWMutex
	rows map[task.ID]*row
	// order has the tasks in ready order, see task.Before. The tasks in it are immutable:
	// a change replaces one.
	order btree.Tree[*task.Task]
	// snapshot is an immutable copy of order, which shares most of it. Readers iterate over
	// it without a lock.
	snapshot atomic.Pointer[btree.Tree[*task.Task]]
	// waits counts what each task unblocks, which decides on its place in order. moved are
	// the tasks that have another place because of that, until somebody takes them.
	waits *task.Waits
	moved []task.ID
}

func newIndex(tasks []task.Task) *index {
	before := func(a, b *task.Task) bool { return task.Before(*a, *b) < 0 }
	x := &index{
		rows:  make(map[task.ID]*row, len(tasks)),
		order: btree.New(before), // mu guards it
		waits: task.NewWaits(),
	}
	for _, t := range tasks {
		x.set(t)
	}
	x.moved = nil // nobody has seen the former order
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

// all yields the current tasks, in ready order.
func (x *index) all() iter.Seq[task.Task] {
	snapshot := *x.snapshot.Load()
	return func(yield func(task.Task) bool) {
		snapshot.All(func(t *task.Task) bool { return yield(*t) })
	}
}

// compare returns the readings that show something new. It notes the other ones, unless
// they are outdated, as the last readings of their tasks.
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

// put stores readings.
func (x *index) put(read []reading) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range read {
		x.set(r.Task).touch(r)
	}
	x.publish()
}

// remove removes tasks.
func (x *index) remove(ids []task.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		if r := x.rows[id]; r != nil {
			x.order.Delete(r.task)
			delete(x.rows, id)
			x.move(x.waits.Set(task.Task{ID: id, Trashed: true}))
		}
	}
	x.publish()
}

// readSince reports whether the task was read at s or later.
func (x *index) readSince(id task.ID, s stamp) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.rows[id]
	return r != nil && r.read >= s
}

// set stores a task in its row and in order, and returns the row. x.mu is locked.
func (x *index) set(t task.Task) *row {
	moved := x.waits.Set(t)
	known := x.place(t)
	x.move(moved)
	return known
}

// move gives tasks their new places in order. x.mu is locked.
func (x *index) move(ids []task.ID) {
	for _, id := range ids {
		if r := x.rows[id]; r != nil {
			x.place(*r.task)
			x.moved = append(x.moved, id)
		}
	}
}

// takeMoved returns the tasks that have moved since it was last called.
func (x *index) takeMoved() []task.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	moved := x.moved
	x.moved = nil
	return moved
}

// place puts a task in order by what it unblocks now. x.mu is locked.
func (x *index) place(t task.Task) *row {
	t.Unblocks = x.waits.Unblocks(t)
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

// publish makes the changes visible to readers of all tasks. x.mu is locked.
func (x *index) publish() {
	snapshot := x.order.Copy()
	x.snapshot.Store(&snapshot)
}

// doubts reports whether t, a row of a query, may be older than the page that was read
// after since: the two differ, and the row is not surely newer. (Notion has the time of the
// last edit to the minute only.) Fields do not count: a formula may differ at every reading.
func (x *index) doubts(t task.Task, since time.Time) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	known := x.rows[t.ID]
	if known == nil || !known.page.After(since) {
		return false
	}
	page := *known.task
	page.Fields, t.Fields, page.Scope, t.Scope, page.Related, t.Related = nil, nil, nil, nil, nil, nil
	return !same(page, t) && !newer(t, page)
}

// newer reports whether a row of a query is surely newer than the page: it was edited in a
// later minute, or it shows the end of the claim that the page shows.
func newer(row, page task.Task) bool {
	if row.Edited.After(page.Edited) {
		return true
	}
	before, after := claim.ParseToken(page.Token), claim.ParseToken(row.Token)
	return before.ID != "" && after.Done && !before.Done && !before.Void && after.ID == before.ID
}

// related returns the tasks that relate to other pages, as they were read last.
func (x *index) related() (read []reading) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for r := range maps.Values(x.rows) {
		if len(r.task.Related) > 0 {
			read = append(read, reading{Task: *r.task, at: r.read})
		}
	}
	return read
}

// missing returns the tasks that were not read at s or later: those that are not in a
// listing begun at s.
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

// page returns when the page of a task was last read; zero if it never was.
func (x *index) page(id task.ID) time.Time {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r := x.rows[id]; r != nil {
		return r.page
	}
	return time.Time{}
}
