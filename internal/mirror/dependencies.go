package mirror

import (
	"context"
	"errors"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Blockers returns the dependencies of t that are not COMPLETED, for a caller that
// waits. It reads dependencies that the mirror does not have. While tasks may not be
// claimed, see Closed, it returns the reason as an error: pages may not show all their
// dependencies then.
func (m *Mirror) Blockers(ctx context.Context, t task.Task) ([]task.ID, error) {
	if err := m.Closed(); err != nil {
		return nil, err
	}
	ctx = m.source.Impatient(ctx)
	var failed error
	out := task.Unfinished(t, func(id task.ID) (task.Status, bool) {
		known, ok := m.Task(id)
		if !ok {
			var err error
			if known, ok, err = m.fetch(ctx, id); err != nil {
				failed = err
			}
		}
		return known.Status, ok && !known.Trashed
	})
	return out, failed
}

// Knows reports whether Blockers can answer for t without a request to Notion.
func (m *Mirror) Knows(t task.Task) bool {
	for _, id := range t.DependsOn {
		if _, known := m.Task(id); !known && !m.isAbsent(id) {
			return false
		}
	}
	return true
}

// lookUp reads the dependencies of unfinished tasks that the mirror does not have,
// because they were finished long ago. It reads maxLookups at most.
func (m *Mirror) lookUp(ctx context.Context) error {
	lookups := 0
	for t := range m.Tasks() {
		if t.Status.Finished() {
			continue
		}
		for _, id := range t.DependsOn {
			if _, known := m.Task(id); known || m.isAbsent(id) {
				continue
			}
			if lookups++; lookups > maxLookups {
				return nil
			}
			if _, _, err := m.fetch(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch reads a page that queries do not list. ok is false if there is no such task;
// that is remembered until the next full sync.
func (m *Mirror) fetch(ctx context.Context, id task.ID) (t task.Task, ok bool, err error) {
	if m.isAbsent(id) {
		return task.Task{}, false, nil
	}
	r, err := m.source.Get(ctx, id)
	switch {
	case isKind(err, claim.NotFound):
		m.mu.Lock()
		m.absent[id] = struct{}{}
		m.mu.Unlock()
		return task.Task{}, false, nil
	case err != nil:
		return task.Task{}, false, err
	}
	m.Observe(r)
	return r.Task, true, nil
}

func (m *Mirror) isAbsent(id task.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, absent := m.absent[id]
	return absent
}

// isKind reports whether err is of that kind.
func isKind(err error, kind claim.StoreErrorKind) bool {
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	return isFailed && failed.Kind == kind
}
