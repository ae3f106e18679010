// Package ready keeps the ready view: the tasks that could be claimed now, in order, with a list of
// its own for each agent that tasks are assigned to. It is updated task by task, so that the cost of
// a question depends on the length of the answer, not on the size of the board.
package ready

import (
	"iter"
	"slices"
	"sort"
	"sync"
	"time"

	"dibs/internal/kit/btree"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// Board has the tasks of a View. Its methods are called with the view locked, and must not call it.
type Board interface {
	// Task returns a task of the board.
	Task(task.ID) (task.Task, bool)

	// Judge returns whether a claim on a task could be granted now.
	Judge(task.Task) Verdict

	// Became is called with every task that was judged anew and is ready, even if it was ready
	// before.
	Became(task.Task, Verdict)

	// Now returns the time, by the clock of Verdict.Again.
	Now() time.Time
}

// Verdict says whether a task is ready.
type Verdict struct {
	Ready bool
	// For is the only agent that may claim the task; empty if any may.
	For string
	// Again is when time alone may change the verdict, as when a lease ends; zero if it cannot.
	Again time.Time
}

// View is safe for concurrent use.
type View struct {
	board Board

	mu   sync.Mutex
	open map[task.ID]row
	// ready has the ready tasks by the agent that may claim them; the empty name has those that
	// any agent may claim.
	ready map[string]btree.Tree[*task.Task]
	links task.Links             // of the rows in open
	again *clock.Agenda[task.ID] // when to judge tasks again
}

// row is a task that may be ready, with its last verdict.
type row struct {
	task    *task.Task // immutable
	verdict Verdict
}

// New returns a view of no tasks.
func New(b Board) *View {
	return &View{
		board: b, open: make(map[task.ID]row), links: task.NewLinks(),
		ready: map[string]btree.Tree[*task.Task]{"": newList()},
		again: clock.NewAgenda[task.ID](),
	}
}

// newList returns an empty list in ready order; v.mu guards it.
func newList() btree.Tree[*task.Task] {
	return btree.New(func(a, b *task.Task) bool { return task.Before(*a, *b) < 0 })
}

// Changed judges tasks anew, and those that wait for them. Call it after the board, or the record
// of claims, has changed.
func (v *View) Changed(ids ...task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		v.judge(id, time.Time{})
		for _, dependent := range slices.Collect(v.links.By(id)) {
			v.judge(dependent, time.Time{})
		}
	}
}

// Claimed judges a task anew, because its holder has changed.
func (v *View) Claimed(id task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.judge(id, time.Time{})
}

// Tasks returns the ready tasks that any agent may claim.
func (v *View) Tasks() List { return v.list("") }

// Assigned returns the ready tasks that only the agent of that name may claim; none for an empty
// name.
func (v *View) Assigned(agent string) List {
	if agent == "" {
		return List{}
	}
	return v.list(agent)
}

// list returns the ready tasks in the list of that name.
func (v *View) list(agent string) List {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.catchUp()
	list := v.ready[agent]
	if list == nil {
		return List{}
	}
	return List{list.Copy(), 0, list.Len()} // the tree is copied on write, so this is cheap
}

// Len returns the number of ready tasks that any agent may claim.
func (v *View) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.catchUp()
	return v.ready[""].Len()
}

// catchUp judges anew the tasks whose time has come. v.mu is locked.
func (v *View) catchUp() {
	now := v.board.Now()
	for {
		id, at, ok := v.again.First()
		if !ok || at.After(now) {
			return
		}
		v.again.Remove(id) // so that it is judged once, whatever the verdict
		v.judge(id, now)
	}
}

// judge reads a task from the board and judges it. If it has to be judged again, that is after
// earliest. v.mu is locked.
func (v *View) judge(id task.ID, earliest time.Time) {
	before, known := v.open[id]
	if known && before.verdict.Ready {
		v.take(before)
	}
	t, ok := v.board.Task(id)
	if !ok || t.Trashed || t.Status != task.Open && !named(t) {
		if known {
			v.links.Set(id, nil)
			v.again.Remove(id)
			delete(v.open, id)
		}
		return
	}
	v.links.Set(id, t.Awaited())
	now := row{&t, v.board.Judge(t)}
	if now.verdict.Ready {
		v.put(now)
		v.board.Became(t, now.verdict)
	}
	again := now.verdict.Again
	if v.again.Remove(id); !again.IsZero() {
		if !again.After(earliest) {
			again = earliest.Add(time.Second) // the clock may have moved between two readings
		}
		v.again.Set(id, again)
	}
	v.open[id] = now
}

// named reports whether a task is IN_PROGRESS and assigned, and so may be ready for its agent, now
// or once a lease is over.
func named(t task.Task) bool {
	return t.Status == task.InProgress && (t.AssigneeIsAgent || t.ClaimedAt.IsZero() && t.ClaimedBy != "")
}

// put adds a ready task to its list. v.mu is locked.
func (v *View) put(r row) {
	list := v.ready[r.verdict.For]
	if list == nil {
		list = newList()
		v.ready[r.verdict.For] = list
	}
	list.Set(r.task)
}

// take removes a task from its list. v.mu is locked.
func (v *View) take(r row) {
	list := v.ready[r.verdict.For]
	if list.Delete(r.task); list.Len() == 0 && r.verdict.For != "" {
		delete(v.ready, r.verdict.For)
	}
}

// List is an immutable snapshot of ready tasks, in ready order (task.Before). Counting them is free,
// and reading the first n costs n. The zero value is empty. It is safe for concurrent use.
type List struct {
	tree     btree.Tree[*task.Task] // immutable; nil only if the list is empty
	from, to int                    // the list is tree[from:to]
}

// Len returns the number of tasks.
func (l List) Len() int { return l.to - l.from }

// All yields the tasks.
func (l List) All() iter.Seq[task.Task] {
	return func(yield func(task.Task) bool) {
		if l.Len() == 0 {
			return
		}
		first, _ := l.tree.At(l.from)
		left := l.Len()
		l.tree.Ascend(first, func(t *task.Task) bool {
			left--
			return yield(*t) && left > 0
		})
	}
}

// Of returns the part of the list with that priority. It finds it by binary search.
func (l List) Of(p task.Priority) List {
	place := func(after bool) int {
		return l.from + sort.Search(l.Len(), func(i int) bool {
			t, _ := l.tree.At(l.from + i)
			return t.Priority > p || !after && t.Priority == p
		})
	}
	return List{l.tree, place(false), place(true)}
}
