package ready

import (
	"iter"
	"sort"

	"dibs/internal/task"

	"github.com/tidwall/btree"
)

// List is the ready tasks of one moment, in the order in which they are offered. To count them
// costs nothing, and to look at the first few costs those few. The zero value is empty. It is
// safe for concurrent use.
type List struct {
	tree     *btree.BTreeG[*task.Task] // not changed any more; nil only if the list is empty
	from, to int                       // the places in the tree that the list begins at and ends before
}

// Len is how many tasks there are.
func (l List) Len() int { return l.to - l.from }

// All yields the tasks.
func (l List) All() iter.Seq[task.Task] {
	return func(yield func(task.Task) bool) {
		if l.Len() == 0 {
			return
		}
		first, _ := l.tree.GetAt(l.from)
		left := l.Len()
		l.tree.Ascend(first, func(t *task.Task) bool {
			left--
			return yield(*t) && left > 0
		})
	}
}

// Of returns the tasks of that priority, which are a part of the list. It looks at as many tasks
// as it takes to halve the list down to one.
func (l List) Of(p task.Priority) List {
	place := func(after bool) int {
		return l.from + sort.Search(l.Len(), func(i int) bool {
			t, _ := l.tree.GetAt(l.from + i)
			return t.Priority > p || !after && t.Priority == p
		})
	}
	return List{l.tree, place(false), place(true)}
}
