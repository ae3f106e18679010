package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/backoff"
	"dibs/internal/task"
)

const (
	// firstPass is how long a task is passed over after its page could not be read or written.
	firstPass = 30 * time.Second
	// maxTroubled is how many failing pages one request meets before it blames Notion.
	maxTroubled = 3
)

// passes are the times for which a task is passed over: they grow with its failures while others work.
var passes = backoff.Backoff{First: firstPass, Longest: 10 * time.Minute}

// troubles are the tasks whose pages fail while others work. They are passed over for a while, so
// that they do not block the rest. It is safe for concurrent use.
type troubles struct {
	mu     sync.Mutex
	of     map[task.ID]trouble
	worked time.Time // when a page last worked
}

type trouble struct {
	title string
	met   time.Time // by this machine's clock
	until time.Time
	count int // of its failures while other pages worked
	err   error
}

// meet has a task passed over for a while.
func (t *troubles) meet(one task.Task, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.of, func(_ task.ID, old trouble) bool { return now.Sub(old.until) > passes.Longest })
	if t.of == nil {
		t.of = make(map[task.ID]trouble)
	}
	last := t.of[one.ID]
	count := max(1, last.count)
	if t.worked.After(last.met) && last.count > 0 { // it is the page, not Notion
		count++
	}
	t.of[one.ID] = trouble{one.Title, now, now.Add(passes.After(count)), count, err}
}

// works records that a task's page can be read and written.
func (t *troubles) works(id task.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worked = time.Now()
	delete(t.of, id)
}

// over gives tasks another try, as they have changed.
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

// why returns why a task is passed over.
func (t *troubles) why(id task.ID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[id]
	return fmt.Sprintf("its page could not be read or written, and it is passed over for another %v: %v", max(0, time.Until(one.until)).Round(time.Second), one.err)
}

// warnings returns one line for each task that is passed over: which, why, and for how long.
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

// touchPatience is how long a task is passed over because of what it touches. Then others of its
// priority, or of a lower one, that touch the same are passed over in its favour: else small tasks in
// turn could keep a large one waiting for ever.
const touchPatience = 10 * time.Minute

// overlooked has the tasks that were passed over because other claims touch the same, and since when.
// It is safe for concurrent use.
type overlooked struct {
	mu    sync.Mutex
	since map[task.ID]time.Time
}

// note records that a task was passed over.
func (o *overlooked) note(id task.ID, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since == nil {
		o.since = make(map[task.ID]time.Time)
	}
	if o.since[id].IsZero() {
		o.since[id] = now
	}
}

// longest returns the task that was passed over first, among those that counts returns true for, and
// before that moment. It forgets those that are not ready any more.
func (o *overlooked) longest(before time.Time, ready, counts func(task.ID) bool) (first task.ID, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, at := range o.since {
		if !ready(id) {
			delete(o.since, id)
		} else if !at.After(before) && (first == "" || at.Before(since) || at.Equal(since) && id < first) && counts(id) {
			first, since = id, at
		}
	}
	return first, since
}

// at returns since when a task is passed over; now if it is not.
func (o *overlooked) at(id task.ID, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.since[id]; ok {
		return at
	}
	return now
}

// back is a task that was up for review, and came back.
type back struct {
	claim claim.ID // that ended with the review, if the page shows it
	to    string   // its agent, which may claim the task first
	text  string   // what was said
	until time.Time
}

// backs has the tasks that came back, until somebody claims them. It is safe for concurrent use.
type backs struct {
	mu  sync.Mutex
	all map[task.ID]back
}

func (r *backs) get(id task.ID) (back, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.all[id]
	return b, ok
}

func (r *backs) put(id task.ID, b back) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[task.ID]back)
	}
	r.all[id] = b
}

func (r *backs) remove(id task.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}
