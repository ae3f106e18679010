package emulator

import (
	"container/heap"
	"slices"
)

// firsts are the first of many rows, at most a given number of them. They are found
// without sorting the others, of which a large board has many.
type firsts struct {
	order order
	most  int
	rows  []ranked // a heap with the last of them on top
}

// add takes a row in if it is among the first. Its keys stay the caller's.
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

// sorted empties f and returns its rows in their order.
func (f *firsts) sorted() []*page {
	slices.SortFunc(f.rows, f.order.compare)
	pages := make([]*page, len(f.rows))
	for i, r := range f.rows {
		pages[i] = r.page
	}
	f.rows = nil
	return pages
}

// For package heap.

func (f *firsts) Len() int           { return len(f.rows) }
func (f *firsts) Less(i, j int) bool { return f.order.compare(f.rows[i], f.rows[j]) > 0 }
func (f *firsts) Swap(i, j int)      { f.rows[i], f.rows[j] = f.rows[j], f.rows[i] }
func (f *firsts) Push(x any)         { f.rows = append(f.rows, x.(ranked)) }

// Pop is never called: the last is replaced where it is.
func (f *firsts) Pop() any {
	r := f.rows[len(f.rows)-1]
	f.rows = f.rows[:len(f.rows)-1]
	return r
}
