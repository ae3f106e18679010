// Package outboxtest has a ledger in memory, and the tests that every ledger passes.
package outboxtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
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
	outbox.Intent
	NotBefore   time.Time
	DeliveredAt time.Time
	LastError   error
}

var _ outbox.Ledger = (*Memory)(nil)

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
		if r.State == outbox.Sending {
			r.State = outbox.Doubted
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
func (m *Memory) AddEvents(kind outbox.Kind, events ...claim.Fact) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.add(outbox.Intent{ID: e.ID, Kind: kind, Fact: e, At: e.At})
	}
}

func (m *Memory) add(in outbox.Intent) outbox.Intent {
	m.last++
	in.Seq, in.State = m.last, outbox.Due
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

// Owe implements outbox.Ledger.
func (m *Memory) Owe(ctx context.Context, in outbox.Intent) (outbox.Intent, error) {
	err := m.change(ctx, func() error {
		in = m.add(in)
		return nil
	})
	return in, err
}

// OwedFor implements outbox.Ledger.
func (m *Memory) OwedFor(ctx context.Context, uid int, key string) (in outbox.Intent, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if key != "" && r.UID == uid && r.Key == key {
			return r.Intent, true, ctx.Err()
		}
	}
	return outbox.Intent{}, false, ctx.Err()
}

// waiting returns the intents of a kind that are due or in doubt.
func (m *Memory) waiting(kind outbox.Kind) (rows []*Row) {
	for _, r := range m.rows {
		if r.Kind == kind && (r.State == outbox.Due || r.State == outbox.Doubted) {
			rows = append(rows, r)
		}
	}
	return rows
}

// NextOwed implements outbox.Ledger.
func (m *Memory) NextOwed(ctx context.Context, kind outbox.Kind, now time.Time, limit int) (list []outbox.Intent, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.waiting(kind) {
		if !r.NotBefore.After(now) && (limit == 0 || len(list) < limit) {
			list = append(list, r.Intent)
		}
	}
	return list, ctx.Err()
}

// NextOwedAt implements outbox.Ledger.
func (m *Memory) NextOwedAt(ctx context.Context, kind outbox.Kind) (first time.Time, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.waiting(kind) {
		if !ok || r.NotBefore.Before(first) {
			first, ok = r.NotBefore, true
		}
	}
	return first, ok, ctx.Err()
}

// Hurry implements outbox.Ledger.
func (m *Memory) Hurry(ctx context.Context, kind outbox.Kind, latest time.Time) error {
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
func (m *Memory) move(ctx context.Context, in outbox.Intent, not outbox.State, do func(*Row)) error {
	return m.change(ctx, func() error {
		var rows []*Row
		for _, in := range in.All() {
			at := slices.IndexFunc(m.rows, func(r *Row) bool { return r.Seq == in.Seq && r.State != outbox.Delivered && r.State != not })
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

// StartSending implements outbox.Ledger.
func (m *Memory) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	return m.move(ctx, in, outbox.Sending, func(r *Row) { r.State, r.Sent, r.Tries = outbox.Sending, at, r.Tries+1 })
}

// NoteInDoubt implements outbox.Ledger.
func (m *Memory) NoteInDoubt(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return m.move(ctx, in, "", func(r *Row) { r.State, r.NotBefore, r.LastError = outbox.Doubted, notBefore, why })
}

// Retry implements outbox.Ledger.
func (m *Memory) Retry(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return m.move(ctx, in, "", func(r *Row) { r.State, r.NotBefore, r.LastError = outbox.Due, notBefore, why })
}

// Delivered implements outbox.Ledger.
func (m *Memory) Delivered(ctx context.Context, in outbox.Intent, ref string, at time.Time) error {
	taken := false
	err := m.move(ctx, in, "", func(r *Row) {
		taken = ref != "" && slices.ContainsFunc(m.rows, func(other *Row) bool { return other.Ref == ref })
		if !taken {
			r.State, r.Ref, r.DeliveredAt = outbox.Delivered, ref, at
		}
	})
	if taken {
		return outbox.ErrTaken
	}
	return err
}

// Drop implements outbox.Ledger.
func (m *Memory) Drop(ctx context.Context, in outbox.Intent) error {
	return m.change(ctx, func() error {
		m.rows = slices.DeleteFunc(m.rows, func(r *Row) bool { return r.Seq == in.Seq })
		return nil
	})
}
