package sim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Register is a simulated Notion database of tasks. Each read and each write takes effect at
// one instant, and the last writer of a property wins. Dates are cut to the minute, lease
// lengths are rounded up to whole minutes, and times are in UTC.
type Register struct {
	mu    sync.Mutex
	pages map[task.ID][]Version // the last is what the page shows
}

// Version is what a page showed from one moment on.
type Version struct {
	From time.Time
	// By is the name of the store that wrote it, empty for a person.
	By   string
	Task task.Task
}

// NewRegister returns a register with the given tasks.
func NewRegister(tasks ...task.Task) *Register {
	r := &Register{pages: make(map[task.ID][]Version)}
	for _, t := range tasks {
		r.Add(t)
	}
	return r
}

// Add adds a page, as a person does.
func (r *Register) Add(t task.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put("", t)
}

// put makes t the page's present version.
func (r *Register) put(by string, t task.Task) {
	t.ClaimedAt = t.ClaimedAt.UTC().Truncate(time.Minute)
	t.Timeout = (t.Timeout + time.Minute - 1).Truncate(time.Minute)
	r.pages[t.ID] = append(r.pages[t.ID], Version{From: time.Now(), By: by, Task: t})
}

// get returns what the page shows.
func (r *Register) get(id task.ID) (task.Task, error) {
	versions := r.pages[id]
	if len(versions) == 0 {
		return task.Task{}, claim.Errorf(claim.NotFound, claim.LandedNo, "page %s: 404 object_not_found: not there, or not shared with the connection", id)
	}
	return clone(versions[len(versions)-1].Task), nil
}

func (r *Register) read(id task.ID) (task.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(id)
}

// write applies w and returns what the page shows afterwards.
func (r *Register) write(by string, id task.ID, w claim.Write) (task.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.get(id)
	if err != nil {
		return task.Task{}, err
	}
	if t.Trashed {
		return task.Task{}, claim.Errorf(claim.Trashed, claim.LandedNo, "page %s: 400 validation_error: can't edit a page that is in the trash", id)
	}
	set(&t.Status, w.Status)
	set(&t.ClaimedBy, w.ClaimedBy)
	set(&t.ClaimedAt, w.ClaimedAt)
	set(&t.Token, w.Token)
	set(&t.Timeout, w.Timeout)
	if w.Note != nil {
		t.Note = claim.Noted(t.Note, *w.Note)
	}
	r.put(by, t)
	return r.get(id)
}

func set[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

// Edit changes a page at once, as a person does. The page must exist.
func (r *Register) Edit(id task.ID, change func(*task.Task)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.get(id)
	if err != nil {
		panic(fmt.Sprintf("claimsim: %v", err))
	}
	change(&t)
	r.put("", t)
}

// Remove hides a page from the connection, as a person does.
func (r *Register) Remove(id task.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pages, id)
}

// Page returns what a page shows. The page must exist.
func (r *Register) Page(id task.ID) task.Task {
	t, err := r.read(id)
	if err != nil {
		panic(fmt.Sprintf("claimsim: %v", err))
	}
	return t
}

// Tasks returns what all pages but the trashed ones show, in the order of their ids, like an
// up-to-date query.
func (r *Register) Tasks() []task.Task {
	return r.Query(func(task.ID) time.Duration { return 0 })
}

// Query returns what all pages showed, each as long ago as behind says, like a query that lags.
// A page that is younger than that is shown in its first version. Pages are in the order of
// their ids, and trashed ones are left out.
func (r *Register) Query(behind func(task.ID) time.Duration) []task.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tasks []task.Task
	for _, id := range slices.Sorted(maps.Keys(r.pages)) {
		versions, at := r.pages[id], time.Now().Add(-behind(id))
		seen := len(versions) - 1
		for seen > 0 && versions[seen].From.After(at) {
			seen--
		}
		if t := versions[seen].Task; !t.Trashed {
			tasks = append(tasks, clone(t))
		}
	}
	return tasks
}

// History returns all versions of a page, oldest first. It is no copy: the checks of a race ask
// for it all the time.
func (r *Register) History(id task.ID) []Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.pages[id])
}

func clone(t task.Task) task.Task {
	t.DependsOn, t.SubItems, t.Touches = slices.Clone(t.DependsOn), slices.Clone(t.SubItems), slices.Clone(t.Touches)
	return t
}
