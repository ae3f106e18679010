package task

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Before compares tasks in ready order: by priority, then the one that unblocks more first, then
// the older. Notion has the time of creation to the minute only; within a minute the lower unique
// id is older. Without unique ids the page id decides, so that the order is total and the same for
// everybody.
func Before(a, b Task) int {
	if order := cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Unblocks, a.Unblocks), a.Created.Compare(b.Created)); order != 0 {
		return order // parsing the keys takes longest, so avoid it
	}
	return cmp.Or(cmp.Compare(a.number(), b.number()), cmp.Compare(a.ID, b.ID))
}

// number returns the number in the task's unique id; zero if it has none.
func (t Task) number() int64 {
	n, err := strconv.ParseInt(t.Key[strings.LastIndexByte(t.Key, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Sort sorts tasks into ready order.
func Sort(tasks []Task) { slices.SortFunc(tasks, Before) }

// Lookup returns a task by its id; ok is false if it is not known.
type Lookup func(ID) (t Task, ok bool)

// Unfinished returns the tasks that t waits for: dependencies that are not COMPLETED, and sub-items
// that are not finished. An unknown one counts as unfinished. So does a dependency that is
// cancelled or in the trash: whoever cancelled it decides whether its dependents still make sense.
// Such a sub-item is a part that fell away.
func Unfinished(t Task, lookup Lookup) []ID {
	var out []ID
	for _, id := range t.DependsOn {
		if on, ok := lookup(id); !ok || on.Trashed || on.Status != Completed {
			out = append(out, id)
		}
	}
	for _, id := range t.SubItems {
		if part, ok := lookup(id); (!ok || !part.over()) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// Awaited returns the tasks that t waits for while they are unfinished: its dependencies and its
// sub-items. The caller must not change the list.
func (t Task) Awaited() []ID {
	if len(t.SubItems) == 0 {
		return t.DependsOn
	}
	return slices.Concat(t.DependsOn, t.SubItems)
}

// over reports whether nobody has anything to do on t any more.
func (t Task) over() bool { return t.Trashed || t.Status.Finished() }

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
	passed := map[ID]struct{}{id: {}}
	todo := []ID{id}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for by := range w.links.By(next) {
			if _, ok := passed[by]; ok {
				continue
			}
			if passed[by] = struct{}{}; len(passed) > MostUnblocks {
				return MostUnblocks
			}
			todo = append(todo, by)
		}
	}
	return len(passed) - 1
}

// Stuck says why a task can never become ready, unless a person changes what it waits for.
type Stuck struct {
	// Of is the task at fault: the stuck one itself, or one that it waits for, directly or not.
	Of ID
	// On is what Of waits for in vain: it is CANCELLED, in the trash, or its Status is empty, as
	// it is not on the board. Without an ID, Of stands in a circle of tasks that wait for each
	// other.
	On Task
}

// Rot finds the tasks that can never become ready. It goes through each task once, however many
// are asked for. It is not safe for concurrent use, and holds for the moment in which it was made.
type Rot struct {
	lookup Lookup
	nodes  map[ID]*node
	stack  []ID
}

// node is a task in Tarjan's search for circles.
type node struct {
	index, low int
	open       bool // on the stack
	circle     ID   // a member of its circle that stands for it; empty outside of circles
	stuck      *Stuck
}

// NewRot returns a Rot over the tasks of lookup. For a task that is known not to be on the board,
// lookup returns one without a status. A task that is not known holds nobody up.
func NewRot(lookup Lookup) *Rot { return &Rot{lookup: lookup, nodes: make(map[ID]*node)} }

// Stuck returns why a task can never become ready; nil if it can, or is under way or over.
func (r *Rot) Stuck(t Task) *Stuck {
	if !t.waits() {
		return nil
	}
	return r.visit(t).stuck
}

// waits reports whether t is not begun, so that it waits for others.
func (t Task) waits() bool {
	return !t.over() && t.Status != InProgress && t.Status != Review && t.Status != ""
}

// visit judges a task that waits, after all that it waits for.
func (r *Rot) visit(t Task) *node {
	if n := r.nodes[t.ID]; n != nil {
		return n
	}
	n := &node{index: len(r.nodes), low: len(r.nodes), open: true}
	r.nodes[t.ID] = n
	r.stack = append(r.stack, t.ID)
	var own, behind *Stuck
	itself := false
	for _, id := range Unfinished(t, r.lookup) {
		on, ok := r.lookup(id)
		switch {
		case !ok:
		case !on.waits() && (on.over() || on.Status == ""):
			on.ID = id
			own = cmp.Or(own, &Stuck{Of: t.ID, On: on})
		case on.waits():
			m := r.visit(on)
			if m.open {
				n.low = min(n.low, m.low)
			}
			itself = itself || id == t.ID
			behind = cmp.Or(behind, m.stuck)
		}
	}
	n.stuck = cmp.Or(own, behind)
	if n.low == n.index {
		r.close(t.ID, itself)
	}
	return n
}

// close takes a component of the search off the stack, from the task id on. More than one task, or
// one that waits for itself, are a circle.
func (r *Rot) close(id ID, itself bool) {
	at := len(r.stack) - 1
	for r.stack[at] != id {
		at--
	}
	members := r.stack[at:]
	r.stack = r.stack[:at]
	for _, m := range members {
		n := r.nodes[m]
		n.open = false
		if len(members) > 1 || itself {
			n.circle = id
		}
	}
	if r.nodes[id].circle == "" {
		return
	}
	for _, m := range members {
		if n := r.nodes[m]; n.stuck == nil || n.stuck.Of != m {
			n.stuck = &Stuck{Of: m}
		}
	}
}

// circle returns the shortest circle through a task that stands in one: from it on, each waits for
// the next, and the last for the first.
func (r *Rot) circle(id ID) []ID {
	from := map[ID]ID{}
	for todo := []ID{id}; len(todo) > 0; todo = todo[1:] {
		t, _ := r.lookup(todo[0])
		for _, on := range Unfinished(t, r.lookup) {
			n := r.nodes[on]
			if n == nil || n.circle != r.nodes[id].circle {
				continue
			}
			if on == id {
				path := []ID{t.ID}
				for path[len(path)-1] != id {
					path = append(path, from[path[len(path)-1]])
				}
				slices.Reverse(path)
				return path
			}
			if _, passed := from[on]; !passed {
				from[on] = t.ID
				todo = append(todo, on)
			}
		}
	}
	return []ID{id}
}

// mostInCircle is how many tasks of a circle a sentence names.
const mostInCircle = 4

// Say says in one line why t can never become ready, and what to do about it.
func (r *Rot) Say(t Task, s *Stuck) string {
	name := func(id ID) string {
		other, _ := r.lookup(id)
		if title := cmp.Or(other.Title, other.Key); title != "" {
			return "“" + title + "”"
		}
		return "task " + string(id)
	}
	of, from := "it", "its "
	if s.Of != t.ID {
		of, from = "it waits for "+name(s.Of)+", and that", "the "
	}
	column := "dependencies"
	if at, _ := r.lookup(s.Of); s.On.ID != "" && slices.Contains(at.SubItems, s.On.ID) {
		column = "sub-items"
	}
	if from += column; s.Of != t.ID {
		from += " of " + name(s.Of)
	}
	const never = "it can never become ready: "
	if s.On.ID == "" {
		circle := r.circle(s.Of)
		if len(circle) == 1 {
			return never + of + " waits for itself; take it out of " + from
		}
		text := never + of + " waits in a circle, for "
		for i, id := range circle[1:] {
			if i == mostInCircle {
				text += fmt.Sprintf("%d more, the last of which waits for ", len(circle)-1-i)
				break
			}
			text += name(id) + ", which waits for "
		}
		return text + name(s.Of) + "; take one of them out of the dependencies of another"
	}
	on := name(s.On.ID)
	is, remedy := "is CANCELLED", "reopen"
	switch {
	case s.On.Status == "":
		is, remedy = "is not on this board, or not shared with dibs", "share"
	case s.On.Trashed:
		is, remedy = "is in the trash", "restore"
	}
	return fmt.Sprintf("%s%s waits for %s, which %s; take %[3]s out of %[5]s, or %[6]s %[3]s", never, of, on, is, from, remedy)
}
