package arbiter

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/clock"
)

// believed is for how long the table's word that a row is there need not be asked for again.
const believed = time.Second

// Hold implements claim.Arbiter.
func (l *Ledger) Hold(ctx context.Context, c *claim.Claim) error {
	unlock, err := l.tasks.Lock(ctx, c.Task.ID)
	if err != nil {
		return err
	}
	defer unlock()
	r, known := l.known(c.ID)
	if known {
		now := l.Clocks()
		if r.asked != (clock.Instant{}) && now.Since(r.asked) <= believed && r.lasts-now.Since(r.put) >= l.Stay {
			c.Fence = r.fence
			l.use(c.ID)
			return nil
		}
	}
	fence := r.fence
	if !known {
		fence = c.Fence // of an earlier run
	}
	if fence != 0 {
		kept, now, err := l.keep(ctx, *c, fence)
		switch {
		case err != nil:
			return err
		case kept:
			c.Fence = fence
			l.use(c.ID)
			return nil
		case now != nil && now.Claim.ID == c.ID: // taken anew, and the answer was lost
		case now != nil && !l.over(ctx, *now, l.Now()):
			l.forget(c.ID)
			return &claim.Elsewhere{Holder: l.claimOf(*now)}
		}
		l.forget(c.ID)
	}
	grant, err := l.retake(ctx, *c)
	switch {
	case err != nil:
		return err
	case grant.Fence == 0:
		return &claim.Elsewhere{Holder: l.claimOf(*grant.Holder)}
	}
	c.Fence = grant.Fence
	l.use(c.ID)
	return nil
}

// Doubt implements claim.Arbiter.
func (l *Ledger) Doubt(id claim.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rows[id]; r != nil {
		r.asked = clock.Instant{}
	}
}

// retake takes the task of a claim again, whose row is gone. What became of the request that it
// was made for does not matter any more: by now it may have its answer. The task is locked.
func (l *Ledger) retake(ctx context.Context, c claim.Claim) (Grant, error) {
	c.Key = ""
	return l.take(ctx, c, l.Now(), 0)
}

// use notes that a visit begins for which the row of a claim has to stay.
func (l *Ledger) use(id claim.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rows[id]; r != nil {
		r.using = l.Clocks()
	}
}

// keep puts the row of c anew, if it is still there. The task is locked.
func (l *Ledger) keep(ctx context.Context, c claim.Claim, fence int64) (kept bool, now *Held, err error) {
	lasting := l.lasting(c)
	before := l.Clocks()
	err = l.ask(ctx, func(ctx context.Context) error {
		kept, now, err = l.Table.Keep(ctx, l.rowOf(c), fence, lasting)
		return err
	})
	if kept && err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		next := &row{task: c.Task.ID, fence: fence, put: before, lasts: lasting, asked: before, state: c.State, stale: c.StaleAt}
		if r := l.rows[c.ID]; r != nil {
			next.using = r.using
		}
		l.rows[c.ID] = next
	}
	return kept, now, err
}

func (l *Ledger) known(id claim.ID) (row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rows[id]; r != nil {
		return *r, true
	}
	return row{}, false
}

func (l *Ledger) forget(id claim.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rows, id)
}

// Release implements claim.Arbiter.
func (l *Ledger) Release(ctx context.Context, c claim.Claim) {
	unlock, err := l.tasks.Lock(ctx, c.Task.ID)
	if err != nil {
		return
	}
	defer unlock()
	l.dropped(ctx, c)
}

// Save implements claim.Ledger. What the table cannot be told now Upkeep tells it, as far as
// it matters then: the page says who has the task as well.
func (l *Ledger) Save(ctx context.Context, c claim.Claim, events ...claim.Event) error {
	if err := l.Ledger.Save(ctx, c, events...); err != nil {
		return err
	}
	unlock, err := l.tasks.Lock(ctx, c.Task.ID)
	if err != nil {
		return nil
	}
	defer unlock()
	switch {
	case c.State == claim.Ended:
		l.dropped(ctx, c)
	case c.State == claim.Held, c.State == claim.Finishing:
		l.follow(ctx, c)
	case c.State.GivenUp():
		// It keeps its row until that is over by itself: its write may still be on the way,
		// and nobody's claim should be covered by it. Its own member goes by its own ledger.
		if r, known := l.known(c.ID); known && r.state.Reserves() {
			_, _, _ = l.keep(ctx, c, r.fence) // it is no longer one of its agent's
		}
	}
	return nil
}

// dropped takes the row of c off the table. The task is locked.
func (l *Ledger) dropped(ctx context.Context, c claim.Claim) {
	r, known := l.known(c.ID)
	if !known {
		if c.Fence == 0 { // a claim that no table has seen, or one of an earlier run: that row ends by itself
			return
		}
		r.fence = c.Fence
	}
	err := l.ask(ctx, func(ctx context.Context) error { return l.Table.Drop(ctx, l.rowOf(c), r.fence) })
	if err == nil && c.Key != "" && c.Ending == claim.EndNotGranted {
		err = l.ask(ctx, func(ctx context.Context) error { return l.Table.Forget(ctx, l.rowOf(c)) })
	}
	if err == nil {
		l.forget(c.ID)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.task, r.drop = c.Task.ID, true
	if !known {
		now := l.Clocks()
		r.put, r.lasts = now, l.attemptTime()
	}
	r.wanted = &c
	l.rows[c.ID] = &r
}

// follow puts the row of a claim that is held as its lease is now. The task is locked.
func (l *Ledger) follow(ctx context.Context, c claim.Claim) {
	r, known := l.known(c.ID)
	if known && r.state == c.State && r.stale.Equal(c.StaleAt) && r.wanted == nil {
		return
	}
	if fence := c.Fence; known || fence != 0 {
		if known {
			fence = r.fence
		}
		kept, now, err := l.keep(ctx, c, fence)
		if err != nil {
			l.want(c)
			return
		}
		if kept || now != nil {
			return // else the next visit finds out that it is somebody else's
		}
		l.forget(c.ID)
	}
	if !c.StaleAt.After(l.Now()) {
		return // whoever wants to write for it has to take the task first
	}
	if _, err := l.retake(ctx, c); err != nil {
		l.want(c)
	}
}

// want has Upkeep put the row of c.
func (l *Ledger) want(c claim.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rows[c.ID]
	if r == nil {
		r = &row{task: c.Task.ID, fence: c.Fence}
		l.rows[c.ID] = r
	}
	r.wanted = &c
}

// noteRefused notes in the member's own ledger what it could not note before.
func (l *Ledger) noteRefused(ctx context.Context) error {
	l.mu.Lock()
	all := l.refused
	l.refused = nil
	l.mu.Unlock()
	for i, r := range all {
		if err := l.Ledger.Save(ctx, r.Claim, r.events...); err != nil {
			l.mu.Lock()
			l.refused = append(l.refused, all[i:]...)
			l.mu.Unlock()
			return fmt.Errorf("claim %s: its reservation could not be given up: %w", r.ID, err)
		}
	}
	return nil
}

// Upkeep looks whether the table can be used again if it could not, and tells it what it
// could not be told before. It returns why it cannot be used, nil if it can.
func (l *Ledger) Upkeep(ctx context.Context) error {
	l.tend.Lock()
	defer l.tend.Unlock()
	if err := l.noteRefused(ctx); err != nil {
		return err
	}
	err := l.Table.Probe(ctx)
	l.troubled(err)
	if err != nil {
		return err
	}
	if !l.swept {
		if err := l.sweep(ctx); err != nil {
			return err
		}
		l.swept = true
	}
	for _, c := range l.owing() {
		unlock, err := l.tasks.Lock(ctx, c.Task.ID)
		if err != nil {
			return err
		}
		if r, known := l.known(c.ID); known && r.wanted != nil { // it may have been told meanwhile
			l.tell(ctx, r)
		}
		unlock()
	}
	return l.Trouble()
}

// sweep takes off the table what an earlier run of this member left there of claims that are
// over: it may have ended before it could.
func (l *Ledger) sweep(ctx context.Context) (err error) {
	var rows []Held
	err = l.ask(ctx, func(ctx context.Context) error {
		rows, err = l.Table.Rows(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, h := range rows {
		if err := l.sweepRow(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) sweepRow(ctx context.Context, h Held) error {
	unlock, err := l.tasks.Lock(ctx, h.Claim.Task.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if _, known := l.known(h.Claim.ID); known || !l.over(ctx, h, l.Now()) {
		return nil
	}
	return l.ask(ctx, func(ctx context.Context) error { return l.Table.Drop(ctx, h.Row, h.Fence) })
}

// tell tells the table of one row what it could not be told. The task is locked.
func (l *Ledger) tell(ctx context.Context, r row) {
	c := *r.wanted
	switch {
	case r.drop:
		l.dropped(ctx, c)
	case r.fence != 0:
		l.follow(ctx, c)
	default:
		l.forget(c.ID)
		l.follow(ctx, c)
	}
}

// owing returns the claims of whose rows the table has yet to be told, and forgets those
// that it need not be told of any more.
func (l *Ledger) owing() []claim.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var claims []claim.Claim
	now := l.Clocks()
	for id, r := range l.rows {
		over := now.Since(r.put) > r.lasts+time.Minute
		switch {
		case r.drop && over && r.wanted.Key == "", r.wanted == nil && over:
			delete(l.rows, id)
		case r.wanted != nil:
			claims = append(claims, *r.wanted)
		}
	}
	return claims
}
