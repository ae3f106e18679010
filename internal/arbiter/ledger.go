package arbiter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/keylock"
	"dibs/internal/task"
)

// Config is what a Ledger is made of.
type Config struct {
	// Ledger is the member's own: it decides first, and keeps the record.
	Ledger claim.Ledger
	Table  Table
	// Member is the member's id, which stays the same as long as its own ledger does.
	Member string
	// Name is what the member is called, for the others to say.
	Name string
	// Cluster is what Ledger.Cluster says.
	Cluster func() string
	// Stay is that of the policy: for how long a hold lasts at least.
	Stay time.Duration
	// Now is Notion's time.
	Now func() time.Time
	// Clocks, if set, reads the clocks of the machine in place of those that this process has.
	Clocks func() clock.Instant
	// Changed, if set, is called when the table is found not to be usable any more, or, with
	// nil, to be usable again. It must not call the Ledger's methods.
	Changed func(why error)
	Log     *slog.Logger
}

// Ledger is the ledger of a member of a cluster: a claim.Ledger whose reservations are
// made in the cluster's table, too, and the claim.Arbiter that goes with it. It is safe for
// concurrent use. Upkeep has to be called now and then.
type Ledger struct {
	claim.Ledger
	Config
	tasks keylock.Locks[task.ID]
	tend  sync.Mutex // one Upkeep at a time

	mu      sync.Mutex
	rows    map[claim.ID]*row
	refused []refused
	swept   bool  // guarded by tend: what an earlier run left in the table was looked through
	trouble error // why the table cannot be used, as far as is known
}

// row is what is known of a claim's row in the table.
type row struct {
	task   task.ID
	fence  int64
	put    clock.Instant // when it was put last, or a little earlier
	lasts  time.Duration // since then
	asked  clock.Instant // when the table said last that it is there; zero if that is in doubt
	using  clock.Instant // when Hold said last that a visit may begin; zero if it never did
	state  claim.State   // as it was put
	stale  time.Time     // likewise
	wanted *claim.Claim  // as it is to be put, if that failed
	drop   bool          // it is to be dropped, which failed
}

// NewLedger returns a ledger.
func NewLedger(c Config) *Ledger {
	if c.Clocks == nil {
		start := time.Now()
		c.Clocks = func() clock.Instant { return clock.Local(start) }
	}
	if c.Changed == nil {
		c.Changed = func(error) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Ledger{Ledger: c.Ledger, Config: c, rows: make(map[claim.ID]*row)}
}

var (
	_ claim.Ledger  = (*Ledger)(nil)
	_ claim.Arbiter = (*Ledger)(nil)
)

// Cluster implements claim.Arbiter.
func (l *Ledger) Cluster() string { return l.Config.Cluster() }

// Trouble returns why no task can be claimed now, nil if the table can be used.
func (l *Ledger) Trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// retryAfter is when to try again what the table could not decide: by then Upkeep has
// looked again.
const retryAfter = 5 * time.Second

// askTime is for how long the table is waited for.
const askTime = 2 * time.Second

// Ask lets do use etcd as the ledger's table does. The error is a *claim.ArbiterError if etcd
// cannot be used.
func (l *Ledger) Ask(ctx context.Context, do func(context.Context) error) error {
	return l.ask(ctx, do)
}

// ask lets do use the table. While it is known that it cannot be used, do is not called:
// whoever waits is told so at once. What is under way is not cut short by a caller who goes
// away: whether it was done would not be known.
func (l *Ledger) ask(ctx context.Context, do func(context.Context) error) error {
	if why := l.Trouble(); why != nil {
		return &claim.ArbiterError{RetryAfter: retryAfter, Err: why}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	err := do(ctx)
	if errors.Is(err, ErrAway) || errors.Is(err, ErrForeign) {
		l.troubled(err)
		return &claim.ArbiterError{RetryAfter: retryAfter, Err: err}
	}
	return err
}

// troubled notes that the table cannot be used, or with nil that it can.
func (l *Ledger) troubled(why error) {
	l.mu.Lock()
	before := l.trouble
	l.trouble = why
	l.mu.Unlock()
	switch {
	case why == nil && before != nil:
		l.Log.Info("the cluster's etcd decides again; tasks can be claimed")
		l.Changed(nil)
	case why != nil && (before == nil || before.Error() != why.Error()):
		l.Log.Warn("no task can be claimed for now; what is held goes on until its lease ends", "error", why)
		if before == nil {
			l.Changed(why)
		}
	}
}

// attemptTime is how long a row lasts while its claim is being made. An attempt that has to
// wait longer for its turn takes the task anew.
func (l *Ledger) attemptTime() time.Duration { return 2 * l.Stay }

// Reserve implements claim.Ledger: the member's own ledger decides first, so that its agents
// do not race in the table, and then the table between the members. The error is a
// *claim.Denied if the table cannot be used.
func (l *Ledger) Reserve(ctx context.Context, c claim.Claim, now time.Time, limit int) (*claim.Refusal, error) {
	refusal, err := l.Ledger.Reserve(ctx, c, now, limit)
	if refusal != nil || err != nil {
		return refusal, err
	}
	c.State = claim.Reserved
	var grant Grant
	unlock, err := l.tasks.Lock(ctx, c.Task.ID)
	if err == nil {
		grant, err = l.take(ctx, c, now, limit)
		unlock()
	}
	switch failed, _ := errors.AsType[*claim.ArbiterError](err); {
	case failed != nil:
		l.forgetLater(c)
		denied := failed.Deny(c)
		return nil, errors.Join(l.refuse(ctx, c, now, denied.Event(c, now)), denied)
	case err != nil:
		return nil, errors.Join(l.refuse(ctx, c, now), err)
	case grant.Fence != 0:
		return nil, nil
	case grant.Repeated != nil:
		denied := repeated(*grant.Repeated, c)
		return nil, errors.Join(l.refuse(ctx, c, now, denied.Event(c, now)), denied)
	case grant.Limit:
		refusal = &claim.Refusal{Limit: true}
		for _, h := range grant.Has {
			if h.Member != l.Member {
				refusal.Elsewhere = append(refusal.Elsewhere, h.Claim)
			}
		}
	default:
		refusal = &claim.Refusal{Holder: new(l.claimOf(*grant.Holder))}
	}
	e := refusal.Event(c, now, limit)
	e.Against = "" // that claim is on another ledger, which cannot sum it up
	return refusal, l.refuse(ctx, c, now, e)
}

// claimOf is the claim of a row, which names its member if that is another one.
func (l *Ledger) claimOf(h Held) claim.Claim {
	if h.Member == l.Member {
		h.Claim.Member = ""
	}
	return h.Claim
}

// forgetLater has Upkeep see to it that the key of c is not remembered, of which nothing came:
// the answer that it was put may have been lost.
func (l *Ledger) forgetLater(c claim.Claim) {
	if c.Key == "" {
		return
	}
	c.State, c.Ending = claim.Ended, claim.EndNotGranted
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[c.ID] = &row{task: c.Task.ID, put: l.Clocks(), lasts: l.attemptTime(), wanted: &c, drop: true}
}

// repeated is the denial of c, because its request was made at another member before.
func repeated(r Request, c claim.Claim) *claim.Denied {
	return &claim.Denied{
		Code: claim.CodeHeld, Task: c.Task, Holder: c.Agent, Local: true, Repeated: true,
		Detail: fmt.Sprintf("this request of %s, by its idempotency key, was made at %s of the cluster before%s: ask there, or ask anew under another key", c.Agent, r.at(), r.of()),
	}
}

// at names the member that has a request, as far as that is known.
func (r Request) at() string {
	if r.Name == "" {
		return "another daemon"
	}
	return "member " + r.Name
}

// of names the claim of a request, if there is one.
func (r Request) of() string {
	if r.Claim == "" {
		return ""
	}
	return fmt.Sprintf(", for claim %s", r.Claim)
}

// refused is a claim that the table has refused while the member's own ledger could not note
// that.
type refused struct {
	claim.Claim
	events []claim.Event
}

// refuse ends the reservation of c in the member's own ledger: now, or as soon as that can.
func (l *Ledger) refuse(ctx context.Context, c claim.Claim, now time.Time, events ...claim.Event) error {
	c.State, c.Ending, c.Ended = claim.Ended, claim.EndNotGranted, now
	if len(events) > 0 {
		c.Detail = events[0].Detail
	}
	if err := l.Ledger.Save(context.WithoutCancel(ctx), c, events...); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.refused = append(l.refused, refused{c, events})
		return fmt.Errorf("claim %s: its reservation could not be given up: %w", c.ID, err)
	}
	return nil
}

// take takes the task of c in the table. A row of this member's that its own ledger knows to
// be over is in nobody's way. The task is locked.
func (l *Ledger) take(ctx context.Context, c claim.Claim, now time.Time, limit int) (grant Grant, err error) {
	lasting := max(l.lasting(c), l.attemptTime())
	r := l.rowOf(c)
	before := l.Clocks()
	err = l.ask(ctx, func(ctx context.Context) error {
		if grant, err = l.Table.Take(ctx, r, lasting, limit); err != nil || grant.Holder == nil || !l.over(ctx, *grant.Holder, now) {
			return err
		}
		if err = l.Table.Drop(ctx, grant.Holder.Row, grant.Holder.Fence); err != nil {
			return err
		}
		before = l.Clocks()
		grant, err = l.Table.Take(ctx, r, lasting, limit)
		return err
	})
	if err == nil && grant.Fence != 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rows[c.ID] = &row{task: c.Task.ID, fence: grant.Fence, put: before, lasts: lasting, asked: before, state: c.State, stale: c.StaleAt}
	}
	return grant, err
}

// over reports whether a row is one of this member's whose claim has ended, was given up, or
// is stale at now: its own ledger has given the task to another one.
func (l *Ledger) over(ctx context.Context, h Held, now time.Time) bool {
	if h.Member != l.Member {
		return false
	}
	if r, known := l.known(h.Claim.ID); known && r.using != (clock.Instant{}) && l.Clocks().Since(r.using) < l.Stay {
		return false // what is written on a visit may still be on the way
	}
	c, err := l.Ledger.Claim(ctx, h.Claim.ID)
	switch {
	case errors.Is(err, claim.ErrUnknownClaim): // the mark of a sweep that came to nothing
		return h.Claim.Sweep != nil
	case err != nil:
		return false
	}
	return !c.State.Reserves() || c.State == claim.Held && !c.StaleAt.After(now)
}

// lasting is how long the row of c has to last, for c to have the task as long as its lease
// may be counted on: until others may override it.
func (l *Ledger) lasting(c claim.Claim) time.Duration {
	if c.State != claim.Held && c.State != claim.Finishing {
		return l.attemptTime()
	}
	// However wrong Now is, a lease is no longer than it was when it began.
	most := max(c.StaleAt.Sub(c.ClaimedAt), l.Stay)
	return min(max(c.StaleAt.Sub(l.Now()), l.Stay), most)
}
