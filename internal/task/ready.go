package task

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Before orders tasks as they are offered: by priority, then the older first. Notion
// tells to the minute when a task was made; of tasks made in the same minute, the one
// with the lower unique id was made first. Without one the id decides, so that the order
// is total and the same for everybody.
func Before(a, b Task) int {
	if order := cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Created.Compare(b.Created)); order != 0 {
		return order // without reading the keys, which takes longer than all else
	}
	return cmp.Or(cmp.Compare(a.number(), b.number()), cmp.Compare(a.ID, b.ID))
}

// number is that of the task's unique id; zero if it has none.
func (t Task) number() int64 {
	n, err := strconv.ParseInt(t.Key[strings.LastIndexByte(t.Key, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
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
