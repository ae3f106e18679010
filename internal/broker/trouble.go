package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/task"
)

const (
	// firstPass is how long a task whose page could not be read or written is passed
	// over; each further failure doubles it, up to longestPass.
	firstPass   = 30 * time.Second
	longestPass = 10 * time.Minute
	// maxTroubled is how many pages one request finds in trouble before it takes it for
	// Notion's.
	maxTroubled = 3
)

// troubles are the tasks whose pages fail while others do not, so that one of them does
// not keep everybody from the rest. It is safe for concurrent use.
type troubles struct {
	mu     sync.Mutex
	of     map[task.ID]trouble
	worked time.Time // when a page could last be worked with
}

type trouble struct {
	title string
	met   time.Time // by this machine's clock
	until time.Time
	pass  time.Duration
	err   error
}

// meet has a task passed over for a while.
func (t *troubles) meet(one task.Task, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.of, func(_ task.ID, old trouble) bool { return now.Sub(old.until) > longestPass })
	if t.of == nil {
		t.of = make(map[task.ID]trouble)
	}
	last := t.of[one.ID]
	pass := max(firstPass, last.pass)
	if t.worked.After(last.met) && last.pass > 0 { // it is the page, not Notion
		pass = min(2*pass, longestPass)
	}
	t.of[one.ID] = trouble{one.Title, now, now.Add(pass), pass, err}
}

// works takes note that a task's page can be worked with.
func (t *troubles) works(id task.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worked = time.Now()
	delete(t.of, id)
}

// over takes note that tasks have changed, and are worth another try.
func (t *troubles) over(ids ...task.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		delete(t.of, id)
	}
}

// passed reports whether a task is to be passed over.
func (t *troubles) passed(id task.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.of[id].until)
}

// why says why a task is passed over.
func (t *troubles) why(id task.ID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[id]
	return fmt.Sprintf("its page could not be read or written, and it is passed over for another %v: %v", max(0, time.Until(one.until)).Round(time.Second), one.err)
}

// warnings says which tasks are passed over, one line each, and for how long.
func (t *troubles) warnings() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var lines []string
	for _, id := range slices.SortedFunc(maps.Keys(t.of), func(a, b task.ID) int {
		return cmp.Or(t.of[a].until.Compare(t.of[b].until), cmp.Compare(a, b))
	}) {
		if one := t.of[id]; now.Before(one.until) {
			lines = append(lines, fmt.Sprintf("task %q (%s) is passed over for another %v: %v; look at its page in Notion",
				one.title, id, one.until.Sub(now).Round(time.Second), one.err))
		}
	}
	return lines
}
