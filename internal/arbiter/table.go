package arbiter

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Row says who has a task.
type Row struct {
	// Member is the id of the member through which it was claimed.
	Member string `json:"member"`
	// Claim is the claim, as far as others need to know it.
	Claim claim.Claim `json:"claim"`
}

// rowOf is the row of c, which was made through this member.
func (l *Ledger) rowOf(c claim.Claim) Row {
	r := Row{Member: l.Member, Claim: claim.Claim{
		ID: c.ID, Agent: c.Agent, Member: l.Name, Key: c.Key, State: c.State, Reserved: c.Reserved, Started: c.Started, Lease: c.Lease,
		Task: task.Task{ID: c.Task.ID, Title: c.Task.Title, URL: c.Task.URL},
	}}
	if c.Sweep != nil {
		r.Claim.Sweep = &claim.Sweep{}
	}
	return r
}

// counts reports whether the task is one of those that the row's agent has: not so the mark of
// a sweep, nor a claim that was given up.
func (r Row) counts() bool { return r.Claim.State.Reserves() }

// Grant is what Table.Take came to: one of its fields is set.
type Grant struct {
	// Fence is that of the row, if it is in the table now.
	Fence int64
	// Holder is the row that has the task, with its fence.
	Holder *Held
	// Repeated is the request of the same key and agent, if another member has it, or it was
	// answered.
	Repeated *Request
	// Limit says that the agent has as many tasks as it may, which are in Has.
	Limit bool
	Has   []Held
}

// Held is a row in the table.
type Held struct {
	Row
	Fence int64
}

// Table is where the members of a cluster decide who has a task: it has one row for each
// task that somebody has, which is gone by itself when the time is over for which it was
// put. Each method but Take with a limit is one transaction. Implementations are safe for
// concurrent use, and return an error that wraps ErrAway or ErrForeign.
type Table interface {
	// Take puts row, for that long, unless its task has one of another claim, or its
	// agent has limit other tasks; with a limit of 0 that does not matter. A row of the same
	// claim is left as it is, and counts as taken: the answer to an earlier Take may have
	// been lost. Nor does it put a row whose claim's key another member has for the same
	// agent; one of this member's own is for its own ledger to judge. Each row that is put
	// has a greater fence than all before it.
	Take(ctx context.Context, row Row, lasting time.Duration, limit int) (Grant, error)

	// Keep puts row, for that long from now, in the place of the one with that fence, which
	// it keeps. Otherwise it returns the row that the task has, nil if it has none.
	Keep(ctx context.Context, row Row, fence int64, lasting time.Duration) (kept bool, now *Held, err error)

	// Drop takes the row with that fence off its task, if it is still there.
	Drop(ctx context.Context, row Row, fence int64) error

	// Forget forgets that the request with the key of the row's claim was made for that
	// claim, of which nothing came.
	Forget(ctx context.Context, row Row) error

	// Rows returns all rows.
	Rows(ctx context.Context) ([]Held, error)

	// Probe returns why the table cannot be used, nil if it can.
	Probe(ctx context.Context) error
}

// What keeps a table from deciding.
var (
	// ErrAway: it cannot be reached, or has no leader, and what was asked may have been
	// done or not.
	ErrAway = errors.New("cannot be reached")
	// ErrForeign: it is not the table that this member knows; it was emptied, or restored
	// from a copy. Nothing was done.
	ErrForeign = errors.New("is not as this member left it")
)
