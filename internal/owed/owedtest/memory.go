// Package owedtest has a ledger in memory, and the tests that every ledger passes.
package owedtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/owed"
)

// Memory is a ledger in memory. Like the journal, it refuses calls whose context has ended. It is
// safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	rows []*Row
	last int64
	over error
}

// Row is an intent as a ledger stores it.
type Row struct {
	owed.Intent
	NotBefore   time.Time
	DeliveredAt time.Time
	LastError   error
}

var _ owed.Ledger = (*Memory)(nil)

// NewMemory returns an empty ledger.
func NewMemory() *Memory { return new(Memory) }

// Depose makes every change fail with why from now on, as for a former leader; nil ends that.
func (m *Memory) Depose(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = why
}

// Restart puts in doubt what was being sent, as a new process does.
func (m *Memory) Restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.State == owed.Sending {
			r.State = owed.Doubted
		}
	}
}

// Shift moves all stored times into the past, as if the machine's clock had been set forward.
func (m *Memory) Shift(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		r.Sent, r.NotBefore = r.Sent.Add(-by), r.NotBefore.Add(-by)
	}
}

// Row returns the row of the intent with that id; ok is false if there is none.
func (m *Memory) Row(id string) (_ Row, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.ID == id {
			return *r, true
		}
	}
	return Row{}, false
}

// AddEvents adds an intent of that kind for each event.
func (m *Memory) AddEvents(kind owed.Kind, events ...claim.Fact) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.add(owed.Intent{ID: e.ID, Kind: kind, Fact: e, At: e.At})
	}
}

func (m *Memory) add(in owed.Intent) owed.Intent {
	m.last++
	in.Seq, in.State = m.last, owed.Due
	m.rows = append(m.rows, &Row{Intent: in})
	return in
}

// change runs a transaction.
func (m *Memory) change(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil {
		return m.over
	}
	return do()
}

// Owe implements owed.Ledger.
func (m *Memory) Owe(ctx context.Context, in owed.Intent) (owed.Intent, error) {
	err := m.change(ctx, func() error {
		in = m.add(in)
		return nil
	})
	return in, err
}

// OwedFor implements owed.Ledger.
func (m *Memory) OwedFor(ctx context.Context, uid int, key string) (in owed.Intent, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if key != "" && r.UID == uid && r.Key == key {
			return r.Intent, true, ctx.Err()
		}
	}
	return owed.Intent{}, false, ctx.Err()
}

// waiting returns the intents of a kind that are due or in doubt.
func (m *Memory) waiting(kind owed.Kind) (rows []*Row) {
	for _, r := range m.rows {
		if r.Kind == kind && (r.State == owed.Due || r.State == owed.Doubted) {
			rows = append(rows, r)
		}
	}
	return rows
}

// NextOwed implements owed.Ledger.
func (m *Memory) NextOwed(ctx context.Context, kind owed.Kind, now time.Time, limit int) (list []owed.Intent, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.waiting(kind) {
		if !r.NotBefore.After(now) && (limit == 0 || len(list) < limit) {
			list = append(list, r.Intent)
		}
	}
	return list, ctx.Err()
}

// NextOwedAt implements owed.Ledger.
func (m *Memory) NextOwedAt(ctx context.Context, kind owed.Kind) (first time.Time, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.waiting(kind) {
		if !ok || r.NotBefore.Before(first) {
			first, ok = r.NotBefore, true
		}
	}
	return first, ok, ctx.Err()
}

// Hurry implements owed.Ledger.
func (m *Memory) Hurry(ctx context.Context, kind owed.Kind, latest time.Time) error {
	return m.change(ctx, func() error {
		for _, r := range m.waiting(kind) {
			if r.NotBefore.After(latest) {
				r.NotBefore = latest
			}
		}
		return nil
	})
}

// move changes the rows of an intent and those with it, unless one is delivered or in the state not.
func (m *Memory) move(ctx context.Context, in owed.Intent, not owed.State, do func(*Row)) error {
	return m.change(ctx, func() error {
		var rows []*Row
		for _, in := range in.All() {
			at := slices.IndexFunc(m.rows, func(r *Row) bool { return r.Seq == in.Seq && r.State != owed.Delivered && r.State != not })
			if at < 0 {
				return errors.New("there is no such intent in such a state")
			}
			rows = append(rows, m.rows[at])
		}
		for _, r := range rows {
			do(r)
		}
		return nil
	})
}

// StartSending implements owed.Ledger.
func (m *Memory) StartSending(ctx context.Context, in owed.Intent, at time.Time) error {
	return m.move(ctx, in, owed.Sending, func(r *Row) { r.State, r.Sent, r.Tries = owed.Sending, at, r.Tries+1 })
}

// NoteInDoubt implements owed.Ledger.
func (m *Memory) NoteInDoubt(ctx context.Context, in owed.Intent, notBefore time.Time, why error) error {
	return m.move(ctx, in, "", func(r *Row) { r.State, r.NotBefore, r.LastError = owed.Doubted, notBefore, why })
}

// Retry implements owed.Ledger.
func (m *Memory) Retry(ctx context.Context, in owed.Intent, notBefore time.Time, why error) error {
	return m.move(ctx, in, "", func(r *Row) { r.State, r.NotBefore, r.LastError = owed.Due, notBefore, why })
}

// Delivered implements owed.Ledger.
func (m *Memory) Delivered(ctx context.Context, in owed.Intent, ref string, at time.Time) error {
	taken := false
	err := m.move(ctx, in, "", func(r *Row) {
		taken = ref != "" && slices.ContainsFunc(m.rows, func(other *Row) bool { return other.Ref == ref })
		if !taken {
			r.State, r.Ref, r.DeliveredAt = owed.Delivered, ref, at
		}
	})
	if taken {
		return owed.ErrTaken
	}
	return err
}

// Drop implements owed.Ledger.
func (m *Memory) Drop(ctx context.Context, in owed.Intent) error {
	return m.change(ctx, func() error {
		m.rows = slices.DeleteFunc(m.rows, func(r *Row) bool { return r.Seq == in.Seq })
		return nil
	})
}
