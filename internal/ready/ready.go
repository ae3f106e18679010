// Package ready keeps the ready view: the tasks that a claim could get now, in the
// order in which they are offered, those assigned to one agent apart. It follows the changes of single tasks, so that a
// question costs as much as there is in the answer, however large the board is.
package ready

import (
	"sync"
	"time"

	"dibs/internal/clock"
	"dibs/internal/task"

	"github.com/tidwall/btree"
)

// Board is what a View is of. Its methods are called with the view locked, and must not call it.
type Board interface {
	// Task returns a task of the board.
	Task(task.ID) (task.Task, bool)

	// Judge says whether a claim on a task could be granted now.
	Judge(task.Task) Verdict

	// Became is called with every task that was judged anew and is ready, whether it was
	// before or not.
	Became(task.Task, Verdict)

	// Now is the time that again is compared with.
	Now() time.Time
}

// Verdict is what is to be said of a task.
type Verdict struct {
	Ready bool
	// For is the only agent that may claim the task; empty if any may.
	For string
	// Again is when the verdict may change although nothing else does, as when a lease
	// ends; zero if it cannot.
	Again time.Time
}

// View is safe for concurrent use.
type View struct {
	board Board

	mu   sync.Mutex
	open map[task.ID]row
	// ready has the tasks that are ready, by the agents that may claim them; under the
	// empty name those that any may.
	ready map[string]*btree.BTreeG[*task.Task]
	// waiting has the tasks that are kept by what they depend on.
	waiting map[task.ID]map[task.ID]struct{}
	again   *clock.Agenda[task.ID] // of tasks that are to be judged again at some time
}

// row is a task that may be ready, as it was judged last.
type row struct {
	task    *task.Task // not changed any more
	verdict Verdict
}

// New returns a view of no tasks.
func New(b Board) *View {
	return &View{
		board: b, open: make(map[task.ID]row), waiting: make(map[task.ID]map[task.ID]struct{}),
		ready: map[string]*btree.BTreeG[*task.Task]{"": newList()},
		again: clock.NewAgenda[task.ID](),
	}
}

// newList makes a list of tasks in the order in which they are offered; v.mu guards it.
func newList() *btree.BTreeG[*task.Task] {
	return btree.NewBTreeGOptions(func(a, b *task.Task) bool { return task.Before(*a, *b) < 0 }, btree.Options{NoLocks: true})
}

// Changed judges the tasks, and those that depend on them, anew. It is to be called
// after the board, or what is known of the claims, shows the change.
func (v *View) Changed(ids ...task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		v.judge(id, time.Time{})
		for dependent := range v.waiting[id] {
			v.judge(dependent, time.Time{})
		}
	}
}

// Claimed has a task judged anew: who has it has changed.
func (v *View) Claimed(id task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.judge(id, time.Time{})
}

// Tasks returns the ready tasks of this moment that any agent may claim.
func (v *View) Tasks() List { return v.list("") }

// Assigned returns the ready tasks of this moment that only the agent of that name may
// claim; none for an empty name.
func (v *View) Assigned(agent string) List {
	if agent == "" {
		return List{}
	}
	return v.list(agent)
}

// list returns the ready tasks of this moment that are under a name.
func (v *View) list(agent string) List {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.catchUp()
	list := v.ready[agent]
	if list == nil {
		return List{}
	}
	return List{list.Copy(), 0, list.Len()} // copies as it is written to, so this one costs nothing
}

// Len is how many tasks are ready that any agent may claim.
func (v *View) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.catchUp()
	return v.ready[""].Len()
}

// catchUp judges anew what time may have changed. v.mu is held.
func (v *View) catchUp() {
	now := v.board.Now()
	for {
		id, at, ok := v.again.First()
		if !ok || at.After(now) {
			return
		}
		v.again.Remove(id) // whatever the judge says now, it is asked once
		v.judge(id, now)
	}
}

// judge takes over a task as the board has it, and has it judged again after that
// time at the earliest. v.mu is held.
func (v *View) judge(id task.ID, earliest time.Time) {
	before, known := v.open[id]
	if known && before.verdict.Ready {
		v.take(before)
	}
	t, ok := v.board.Task(id)
	if !ok || t.Trashed || t.Status != task.Open && !named(t) {
		if known {
			v.depend(id, before.task.DependsOn, nil)
			v.again.Remove(id)
			delete(v.open, id)
		}
		return
	}
	var dependedOn []task.ID
	if known {
		dependedOn = before.task.DependsOn
	}
	v.depend(id, dependedOn, t.DependsOn)
	now := row{&t, v.board.Judge(t)}
	if now.verdict.Ready {
		v.put(now)
		v.board.Became(t, now.verdict)
	}
	again := now.verdict.Again
	if v.again.Remove(id); !again.IsZero() {
		if !again.After(earliest) {
			again = earliest.Add(time.Second) // clocks differ a little from one look to the next
		}
		v.again.Set(id, again)
	}
	v.open[id] = now
}

// named reports whether a task that is not OPEN may be assigned, and so be ready for
// somebody all the same.
func named(t task.Task) bool {
	return t.Status == task.InProgress && t.ClaimedBy != "" && t.ClaimedAt.IsZero()
}

// put lists a task that is ready. v.mu is held.
func (v *View) put(r row) {
	list := v.ready[r.verdict.For]
	if list == nil {
		list = newList()
		v.ready[r.verdict.For] = list
	}
	list.Set(r.task)
}

// take takes a task off its list. v.mu is held.
func (v *View) take(r row) {
	list := v.ready[r.verdict.For]
	if list.Delete(r.task); list.Len() == 0 && r.verdict.For != "" {
		delete(v.ready, r.verdict.For)
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
