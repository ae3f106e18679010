package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// mirror is a daemon's copy of the tasks: the rows of its last query, which may have lagged,
// and the pages that it read or wrote since.
type mirror struct {
	claim.Unwatched

	lag func(*rand.Rand) time.Duration

	mu   sync.Mutex
	rand *rand.Rand
	rows map[task.ID]task.Task
}

func newMirror(o DaemonOptions) *mirror {
	h := fnv.New64a()
	h.Write([]byte(o.Name))
	m := &mirror{lag: o.Lag, rand: rand.New(rand.NewPCG(o.Seed, h.Sum64())), rows: make(map[task.ID]task.Task)}
	if m.lag == nil {
		m.lag = func(*rand.Rand) time.Duration { return 0 }
	}
	return m
}

// take queries the register and returns the rows.
func (m *mirror) take(r *Register) []task.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := r.Query(func(task.ID) time.Duration { return m.lag(m.rand) })
	clear(m.rows)
	for _, t := range rows {
		m.rows[t.ID] = t
	}
	return rows
}

// Observe stores a page that was read or written.
func (m *mirror) Observe(r claim.Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[r.Task.ID] = r.Task; r.Task.Trashed {
		delete(m.rows, r.Task.ID)
	}
}

func (m *mirror) task(id task.ID) (task.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.rows[id]
	return t, ok
}

// tasks returns all tasks in the order of their ids.
func (m *mirror) tasks() []task.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]task.Task, 0, len(m.rows))
	for _, t := range m.rows {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b task.Task) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}
