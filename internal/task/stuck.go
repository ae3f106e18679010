package task

import (
	"cmp"
	"fmt"
	"slices"
)

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
			if _, seen := from[on]; !seen {
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
		said := never + of + " waits in a circle, for "
		for i, id := range circle[1:] {
			if i == mostInCircle {
				said += fmt.Sprintf("%d more, the last of which waits for ", len(circle)-1-i)
				break
			}
			said += name(id) + ", which waits for "
		}
		return said + name(s.Of) + "; take one of them out of the dependencies of another"
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
