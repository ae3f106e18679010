package reserve

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/claim"
)

// Event is that something was reserved, or is no longer.
type Event struct {
	At   time.Time
	Kind claim.Kind // claim.KindReserved or claim.KindUnreserved
	Of   Reservation
	// Why says why a reservation ended.
	Why string
	// Mesh puts the event into the mesh log, and Count is how many reservations it
	// stands for there, if that is more than one.
	Mesh  bool
	Count int
}

// Detail says in a line what was reserved, or why it is no longer.
func (e Event) Detail() string {
	says := e.Of.Says()
	if e.Of.Folder != "" {
		says += " in " + e.Of.Folder
	}
	if e.Why != "" {
		says += ": " + e.Why
	}
	return says
}

// quiet is how long the mesh log is not told of further reservations of an agent after
// it was told of one. Every entry is a request to Notion, of which there are few.
const quiet = time.Minute

// folds are the reservations that the mesh log has yet to be told of, by agent.
type folds map[string]*fold

type fold struct {
	// until is when the mesh log may be told again.
	until time.Time
	count int
	last  Reservation
}

// told returns the event of a new reservation. The first of an agent in a while goes to
// the mesh log by itself, and those that come soon after it together. changing is held.
func (b *Book) told(r Reservation, now time.Time) []Event {
	e := Event{At: now, Kind: claim.KindReserved, Of: r}
	f := b.folds[r.Agent]
	if f == nil {
		b.folds[r.Agent] = &fold{until: now.Add(quiet)}
		e.Mesh = true
		return []Event{e}
	}
	f.count++
	f.last = r
	return []Event{e}
}

// unfold tells the mesh log of what is due. changing is held.
func (b *Book) unfold(ctx context.Context) error {
	now := b.config.Now()
	for agent, f := range b.folds {
		switch {
		case f.until.After(now):
			continue
		case f.count == 0:
			delete(b.folds, agent)
			continue
		}
		e := Event{At: now, Kind: claim.KindReserved, Of: f.last, Mesh: true, Count: f.count}
		if f.count == 1 {
			e.Why = "told late, because others were reserved just before"
		} else {
			e.Why = fmt.Sprintf("the last of %d", f.count)
		}
		if err := b.config.Storage.SumReservations(ctx, e); err != nil {
			return err
		}
		b.folds[agent] = &fold{until: now.Add(quiet)}
		b.config.Told()
	}
	return nil
}

// lookEvery is how often the book looks whether something is over.
const lookEvery = time.Second

// Run ends reservations that are over, until ctx ends.
func (b *Book) Run(ctx context.Context) {
	for {
		wait := lookEvery
		if !b.RunOnce(ctx) {
			wait = time.Hour // whoever reserves something rouses the loop
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-b.wake:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// RunOnce ends what is over, and tells the mesh log of what is due. It reports whether
// there is anything to look after.
func (b *Book) RunOnce(ctx context.Context) bool {
	b.changing.Lock()
	defer b.changing.Unlock()
	err := b.endOver(ctx)
	if err == nil {
		err = b.unfold(ctx)
	}
	if err != nil && ctx.Err() == nil {
		b.config.Log.Warn("reservations that are over could not be ended; it is tried again", "error", err)
	}
	return len(b.live) > 0 || len(b.folds) > 0
}

// Claimed takes note of a change of a claim: what ends with it is ended soon.
func (b *Book) Claimed(c claim.Claim) {
	if c.State == claim.Held {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range b.live {
		if e.Claim == c.ID {
			b.rouse()
			return
		}
	}
}
