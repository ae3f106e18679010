package task

import (
	"cmp"
	"slices"
)

// Before orders tasks as they are offered: by priority, then the older first,
// then by id, so that the order is total and the same for everybody.
func Before(a, b Task) int {
	return cmp.Or(
		cmp.Compare(a.Priority, b.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.ID, b.ID),
	)
}

// Sort puts tasks into the order in which they are offered.
func Sort(tasks []Task) { slices.SortFunc(tasks, Before) }

// Unfinished returns those dependencies of t that are not COMPLETED. lookup
// says what is known of a dependency; one that is not known counts as
// unfinished, as does a cancelled one: whoever cancelled it decides whether
// what waited for it still makes sense.
func Unfinished(t Task, lookup func(ID) (Status, bool)) []ID {
	var out []ID
	for _, id := range t.DependsOn {
		if s, ok := lookup(id); !ok || s != Completed {
			out = append(out, id)
		}
	}
	return out
}
