// Package arbitersim is a table of a cluster in memory, for the simulated world of package
// claimsim: its time is that of the bubble.
package arbitersim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/task"
)

// Table is an arbiter.Table in memory. It is safe for concurrent use.
type Table struct {
	mu     sync.Mutex
	rows   map[task.ID]entry
	fences int64
	keys   map[[2]string]arbiter.Request // by agent and key
}

type entry struct {
	arbiter.Held
	until time.Time
}

var _ arbiter.Table = (*Table)(nil)

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{rows: make(map[task.ID]entry), keys: make(map[[2]string]arbiter.Request)}
}

// at returns the row of a task that is not over. t.mu is locked.
func (t *Table) at(id task.ID) *arbiter.Held {
	e, ok := t.rows[id]
	if !ok || !e.until.After(time.Now()) {
		delete(t.rows, id)
		return nil
	}
	return &e.Held
}

// Take implements arbiter.Table.
func (t *Table) Take(ctx context.Context, row arbiter.Row, lasting time.Duration, limit int) (arbiter.Grant, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return arbiter.Grant{}, fmt.Errorf("%w: %w", arbiter.ErrAway, context.Cause(ctx))
	}
	if now := t.at(row.Claim.Task.ID); now != nil {
		if now.Claim.ID == row.Claim.ID {
			return arbiter.Grant{Fence: now.Fence}, nil
		}
		return arbiter.Grant{Holder: now}, nil
	}
	has := 0
	for id := range t.rows {
		if h := t.at(id); h != nil && h.Claim.Agent == row.Claim.Agent && h.Claim.State.Reserves() {
			has++
		}
	}
	if limit > 0 && has >= limit {
		return arbiter.Grant{Limit: true}, nil
	}
	if c := row.Claim; c.Key != "" {
		name := [2]string{c.Agent, c.Key}
		if r, ok := t.keys[name]; ok && r.Member != row.Member {
			return arbiter.Grant{Repeated: &r}, nil
		}
		t.keys[name] = row.Request()
	}
	t.fences++
	t.rows[row.Claim.Task.ID] = entry{arbiter.Held{Row: row, Fence: t.fences}, time.Now().Add(lasting)}
	return arbiter.Grant{Fence: t.fences}, nil
}

// Keep implements arbiter.Table.
func (t *Table) Keep(ctx context.Context, row arbiter.Row, fence int64, lasting time.Duration) (bool, *arbiter.Held, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return false, nil, fmt.Errorf("%w: %w", arbiter.ErrAway, context.Cause(ctx))
	}
	now := t.at(row.Claim.Task.ID)
	if now == nil || now.Fence != fence {
		return false, now, nil
	}
	t.rows[row.Claim.Task.ID] = entry{arbiter.Held{Row: row, Fence: fence}, time.Now().Add(lasting)}
	return true, nil, nil
}

// Drop implements arbiter.Table.
func (t *Table) Drop(ctx context.Context, row arbiter.Row, fence int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", arbiter.ErrAway, context.Cause(ctx))
	}
	if now := t.at(row.Claim.Task.ID); now != nil && now.Fence == fence {
		delete(t.rows, row.Claim.Task.ID)
	}
	return nil
}

// Forget implements arbiter.Table.
func (t *Table) Forget(_ context.Context, row arbiter.Row) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name := [2]string{row.Claim.Agent, row.Claim.Key}; t.keys[name] == row.Request() {
		delete(t.keys, name)
	}
	return nil
}

// Rows implements arbiter.Table.
func (t *Table) Rows(context.Context) ([]arbiter.Held, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows []arbiter.Held
	for id := range t.rows {
		if h := t.at(id); h != nil {
			rows = append(rows, *h)
		}
	}
	return rows, nil
}

// Probe implements arbiter.Table.
func (t *Table) Probe(context.Context) error { return nil }

// Empty takes all rows off, as a cluster that lost its data.
func (t *Table) Empty() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.rows)
}
