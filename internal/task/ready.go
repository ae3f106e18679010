package task

import (
	"cmp"
	"fmt"
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

// Order returns a text that sorts as Before compares, for a list that is kept in order where Before
// cannot be called, such as a page in a browser. Unblocks is at most MostUnblocks.
func (t Task) Order() string {
	return fmt.Sprintf("%d%02d%015d%019d%s", t.Priority-Critical, MostUnblocks-t.Unblocks, max(0, t.Created.UnixMilli()), t.number(), t.ID)
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
