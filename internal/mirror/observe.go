package mirror

import (
	"context"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// pages are the pages observed while the storage was busy with earlier ones. They are
// stored together.
type pages struct {
	last  map[task.ID]reading
	taken bool // guarded by Mirror.applying
}

func newPages() *pages { return &pages{last: make(map[task.ID]reading)} }

// Observe stores a page that was read or written just now. When it returns, the page is in
// the storage. If storing fails, it logs the error.
func (m *Mirror) Observe(r claim.Reading) {
	m.mu.Lock()
	mine := m.seen
	mine.last[r.Task.ID] = reading{Task: r.Task, at: m.next(), page: true}
	m.mu.Unlock()
	m.tell(m.take(mine))
}

// tell tells the watcher of tasks that have changed, and of those that moved in the order because
// others wait for them now, or no longer do.
func (m *Mirror) tell(changed []task.ID) {
	if all := append(changed, m.rows.takeMoved()...); len(all) > 0 {
		m.watcher.Changed(all...)
	}
}

// take stores pages, unless another caller that observed one of them did so meanwhile. It
// returns the tasks that changed.
func (m *Mirror) take(p *pages) []task.ID {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
	if p.taken {
		return nil
	}
	m.mu.Lock()
	m.seen = newPages()
	m.mu.Unlock()
	p.taken = true
	read := make([]reading, 0, len(p.last))
	for _, r := range p.last {
		read = append(read, r)
	}
	changed, err := m.put(context.Background(), read)
	if err != nil {
		for id := range p.last {
			m.log.Warn("the mirror could not take over a page", claim.AttrTask, id, claim.AttrError, err)
		}
	}
	return ids(changed)
}

// apply stores readings, and returns the tasks that are new or different.
func (m *Mirror) apply(ctx context.Context, read ...reading) ([]task.Task, error) {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
	return m.put(ctx, read)
}

// put is apply for a caller that has locked m.applying.
func (m *Mirror) put(ctx context.Context, read []reading) ([]task.Task, error) {
	news := m.rows.compare(read)
	if len(news) == 0 {
		return nil, nil
	}
	tasks := make([]task.Task, len(news))
	for i, r := range news {
		tasks[i] = r.Task
	}
	if err := m.storage.PutTasks(ctx, tasks); err != nil {
		return nil, err
	}
	m.rows.put(news)
	return tasks, nil
}

// ids returns the ids of tasks.
func ids(tasks []task.Task) []task.ID {
	out := make([]task.ID, len(tasks))
	for i, t := range tasks {
		out[i] = t.ID
	}
	return out
}

// remove removes those of the tasks that were not read at s or later.
func (m *Mirror) remove(ctx context.Context, remove []task.ID, s stamp, result *Result) error {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
	// One may have been read meanwhile.
	remove = slices.DeleteFunc(remove, func(id task.ID) bool { return m.rows.readSince(id, s) })
	if len(remove) == 0 {
		return nil
	}
	if err := m.storage.DeleteTasks(ctx, remove); err != nil {
		return err
	}
	m.rows.remove(remove)
	result.removed = append(result.removed, remove...)
	return nil
}
