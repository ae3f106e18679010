package arbitersim

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/arbiter"
)

// Machine is what a member runs on, as far as its way to a table goes: it may stand still in
// the middle of a request. What was sent goes its way meanwhile, and what was to be sent is
// sent when it goes on.
type Machine struct {
	// Sends, if set, is called before each request, with the name of the method.
	Sends func(method string)
	// GoOn waits until the machine does not stand still.
	GoOn func()
	// Takes is how long a request is on its way, and its answer on the way back.
	Takes time.Duration
	// Deaf says that an answer which is there only after its time is not taken any more. What
	// was asked took effect all the same.
	Deaf bool
}

// On is a table as it is seen from a machine.
func On(t arbiter.Table, m Machine) arbiter.Table { return machined{t, m} }

type machined struct {
	arbiter.Table
	Machine
}

// ask does something with the table, and returns an error if that is not known.
func (m machined) ask(ctx context.Context, method string, do func(context.Context)) error {
	if m.Sends != nil {
		m.Sends(method)
	}
	m.GoOn()
	time.Sleep(m.Takes)
	do(context.WithoutCancel(ctx))
	time.Sleep(m.Takes)
	m.GoOn()
	if m.Deaf && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", arbiter.ErrAway, context.Cause(ctx))
	}
	return nil
}

func (m machined) Take(ctx context.Context, row arbiter.Row, lasting time.Duration, limit int) (grant arbiter.Grant, err error) {
	if gone := m.ask(ctx, "Take", func(ctx context.Context) { grant, err = m.Table.Take(ctx, row, lasting, limit) }); gone != nil {
		return arbiter.Grant{}, gone
	}
	return grant, err
}

func (m machined) Keep(ctx context.Context, row arbiter.Row, fence int64, lasting time.Duration) (kept bool, now *arbiter.Held, err error) {
	if gone := m.ask(ctx, "Keep", func(ctx context.Context) { kept, now, err = m.Table.Keep(ctx, row, fence, lasting) }); gone != nil {
		return false, nil, gone
	}
	return kept, now, err
}

func (m machined) Drop(ctx context.Context, row arbiter.Row, fence int64) (err error) {
	if gone := m.ask(ctx, "Drop", func(ctx context.Context) { err = m.Table.Drop(ctx, row, fence) }); gone != nil {
		return gone
	}
	return err
}

func (m machined) Rows(ctx context.Context) (rows []arbiter.Held, err error) {
	if gone := m.ask(ctx, "Rows", func(ctx context.Context) { rows, err = m.Table.Rows(ctx) }); gone != nil {
		return nil, gone
	}
	return rows, err
}
