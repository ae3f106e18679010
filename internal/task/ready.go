package task

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Before compares tasks in ready order: by priority, then the older first. Notion has the
// time of creation to the minute only; within a minute the lower unique id is older. Without
// unique ids the page id decides, so that the order is total and the same for everybody.
func Before(a, b Task) int {
	if order := cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Created.Compare(b.Created)); order != 0 {
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

// Unfinished returns the dependencies of t that are not COMPLETED. lookup returns the status
// of a dependency, false if it is not known. An unknown dependency counts as unfinished, and so
// does a cancelled one: whoever cancelled it decides whether its dependents still make sense.
func Unfinished(t Task, lookup func(ID) (Status, bool)) []ID {
	var out []ID
	for _, id := range t.DependsOn {
		if s, ok := lookup(id); !ok || s != Completed {
			out = append(out, id)
		}
	}
	return out
}
