package emulator

import (
	"container/heap"
	"slices"
)

// firsts keeps the first rows of many in an order, at most a given number. It does not sort the
// others: a large board has many.
type firsts struct {
	order order
	most  int
	rows  []ranked // a heap, the last row on top
}

// add keeps a row if it is among the first. It copies the keys.
func (f *firsts) add(r ranked) {
	if len(f.rows) < f.most {
		r.keys = slices.Clone(r.keys)
		heap.Push(f, r)
		return
	}
	if top := &f.rows[0]; f.order.compare(r, *top) < 0 {
		top.page, top.keys = r.page, append(top.keys[:0], r.keys...)
		heap.Fix(f, 0)
	}
}

// sorted empties f and returns its rows in order.
func (f *firsts) sorted() []*page {
	slices.SortFunc(f.rows, f.order.compare)
	pages := make([]*page, len(f.rows))
	for i, r := range f.rows {
		pages[i] = r.page
	}
	f.rows = nil
	return pages
}

// For container/heap.

func (f *firsts) Len() int           { return len(f.rows) }
func (f *firsts) Less(i, j int) bool { return f.order.compare(f.rows[i], f.rows[j]) > 0 }
func (f *firsts) Swap(i, j int)      { f.rows[i], f.rows[j] = f.rows[j], f.rows[i] }
func (f *firsts) Push(x any)         { f.rows = append(f.rows, x.(ranked)) }

// Pop is never called: add replaces the last row in place.
func (f *firsts) Pop() any {
	r := f.rows[len(f.rows)-1]
	f.rows = f.rows[:len(f.rows)-1]
	return r
}
