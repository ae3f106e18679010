package ready

import (
	"iter"
	"sort"

	"dibs/internal/kit/btree"
	"dibs/internal/task"
)

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
