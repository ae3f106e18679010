// Package ready keeps the ready view: the tasks that a claim could get now, in the
// order in which they are offered. It follows the changes of single tasks, so that a
// question costs as much as there is in the answer, however large the board is.
package ready

import (
	"iter"
	"sync"
	"time"

	"dibs/internal/task"

	"github.com/tidwall/btree"
)

// Config is what a View is made of. Both functions are called with the view locked,
// and must not call it.
type Config struct {
	// Task returns a task of the board.
	Task func(task.ID) (task.Task, bool)
	// Judge says whether a claim on an OPEN task could be granted now. If time alone
	// may change its mind, again is when; zero if only a change can.
	Judge func(t task.Task) (ready bool, again time.Time)
	// Now is the time that again is compared with.
	Now func() time.Time
}

// View is safe for concurrent use.
type View struct {
	config Config

	mu    sync.Mutex
	open  map[task.ID]row
	ready *btree.BTreeG[*task.Task]
	// waiting has the OPEN tasks by what they depend on.
	waiting map[task.ID]map[task.ID]struct{}
	again   *btree.BTreeG[appointment]
}

// row is an OPEN task as it was judged last.
type row struct {
	task  *task.Task // not changed any more
	ready bool
	again time.Time
}

// appointment is a task that is to be judged again at some time.
type appointment struct {
	at time.Time
	id task.ID
}

// New returns a view of no tasks.
func New(c Config) *View {
	unlocked := btree.Options{NoLocks: true}
	return &View{
		config: c, open: make(map[task.ID]row), waiting: make(map[task.ID]map[task.ID]struct{}),
		ready: btree.NewBTreeGOptions(func(a, b *task.Task) bool { return task.Before(*a, *b) < 0 }, unlocked),
		again: btree.NewBTreeGOptions(func(a, b appointment) bool {
			if order := a.at.Compare(b.at); order != 0 {
				return order < 0
			}
			return a.id < b.id
		}, unlocked),
	}
}

// Changed has tasks judged anew, and those that depend on them: the board, or what is
// known of who has them, shows something else. It must be called after that can be
// seen.
func (v *View) Changed(ids ...task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		v.judge(id)
		for dependent := range v.waiting[id] {
			v.judge(dependent)
		}
	}
}

// Claimed has a task judged anew: who has it has changed.
func (v *View) Claimed(id task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.judge(id)
}

// Tasks yields the ready tasks of this moment, in the order in which they are
// offered.
func (v *View) Tasks() iter.Seq[task.Task] {
	v.mu.Lock()
	v.catchUp()
	now := v.ready.Copy() // copies as it is written to, so this one costs nothing
	v.mu.Unlock()
	return func(yield func(task.Task) bool) { now.Scan(func(t *task.Task) bool { return yield(*t) }) }
}

// Len is how many tasks are ready.
func (v *View) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.catchUp()
	return v.ready.Len()
}

// catchUp judges anew what time may have changed. v.mu is held.
func (v *View) catchUp() {
	now := v.config.Now()
	for {
		next, ok := v.again.Min()
		if !ok || next.at.After(now) {
			return
		}
		v.judge(next.id)
		if r, ok := v.open[next.id]; ok && !r.again.After(now) && !r.again.IsZero() {
			v.appoint(next.id, &r, time.Time{}) // no sooner than something changes
			v.open[next.id] = r
		}
	}
}

// judge takes over a task as the board has it. v.mu is held.
func (v *View) judge(id task.ID) {
	before, known := v.open[id]
	if known && before.ready {
		v.ready.Delete(before.task)
	}
	t, ok := v.config.Task(id)
	if !ok || t.Status != task.Open || t.Trashed {
		if known {
			v.depend(id, before.task.DependsOn, nil)
			v.appoint(id, &before, time.Time{})
			delete(v.open, id)
		}
		return
	}
	var dependedOn []task.ID
	if known {
		dependedOn = before.task.DependsOn
	}
	v.depend(id, dependedOn, t.DependsOn)
	now := row{task: &t, again: before.again}
	ready, again := v.config.Judge(t)
	if now.ready = ready; ready {
		v.ready.Set(now.task)
	}
	v.appoint(id, &now, again)
	v.open[id] = now
}

// appoint has the task of a row judged again at another time than before.
func (v *View) appoint(id task.ID, r *row, again time.Time) {
	if !r.again.IsZero() {
		v.again.Delete(appointment{r.again, id})
	}
	if r.again = again; !again.IsZero() {
		v.again.Set(appointment{again, id})
	}
}

// depend takes over what a task depends on.
func (v *View) depend(id task.ID, before, after []task.ID) {
	for _, on := range before {
		delete(v.waiting[on], id)
		if len(v.waiting[on]) == 0 {
			delete(v.waiting, on)
		}
	}
	for _, on := range after {
		if v.waiting[on] == nil {
			v.waiting[on] = make(map[task.ID]struct{})
		}
		v.waiting[on][id] = struct{}{}
	}
}
