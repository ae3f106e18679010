package reserve

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

// fact returns the fact that r was made or has ended. why is the reason, if there is one to give.
func (r Reservation) fact(kind claim.Kind, at time.Time, why string) claim.Fact {
	f := claim.Fact{
		ID: claim.NewFactID(at), At: at, Kind: kind, Agent: r.Agent, Claim: r.Claim, Detail: r.Says(),
		Reservation: r.ID, Patterns: r.Patterns(), Shared: r.Shared,
	}
	if kind == claim.KindReserved {
		f.Expires = r.Until
	}
	if r.Folder != "" {
		f.Detail += " in " + r.Folder
	}
	if why != "" {
		f.Detail += ": " + why
	}
	return f
}

// quiet is the time between two entries in the mesh log about an agent's reservations. Every entry
// is a request to Notion, and those are few.
const quiet = time.Minute

// folds has the reservations that are not in the mesh log yet, by agent.
type folds map[string]*fold

type fold struct {
	// until is when the next entry may be made.
	until time.Time
	count int
	last  Reservation
}

// announce returns the fact of a new reservation. An agent's first one in a while gets an entry of its
// own in the mesh log; those soon after it share one, see unfold. changing is locked.
func (b *Book) announce(r Reservation, now time.Time) claim.Fact {
	made := r.fact(claim.KindReserved, now, "")
	f := b.folds[r.Agent]
	if f == nil {
		b.folds[r.Agent] = &fold{until: now.Add(quiet)}
		made.Remote = true
		return made
	}
	f.count++
	f.last = r
	return made
}

// unfold makes the shared entries in the mesh log that are due. changing is locked.
func (b *Book) unfold(ctx context.Context) error {
	now := b.config.Clock.Now()
	for agent, f := range b.folds {
		switch {
		case f.until.After(now):
			continue
		case f.count == 0:
			delete(b.folds, agent)
			continue
		}
		why := "told late, because others were reserved just before"
		if f.count > 1 {
			why = fmt.Sprintf("the last of %d", f.count)
		}
		sum := f.last.fact(claim.KindReserved, now, why)
		sum.Remote, sum.Count, sum.Reservation = true, f.count, ""
		if err := b.config.Storage.Record(ctx, sum); err != nil {
			return err
		}
		b.folds[agent] = &fold{until: now.Add(quiet)}
	}
	return nil
}

// checkEvery is how often the book checks whether something is over.
const checkEvery = time.Second

// Run ends reservations that are over, until ctx ends.
func (b *Book) Run(ctx context.Context) { b.loop.Run(ctx) }

// turn is one turn of the loop. It returns the wait until the next.
func (b *Book) turn(ctx context.Context) time.Duration {
	if b.RunOnce(ctx) {
		return checkEvery
	}
	return clock.UntilWoken // by whoever reserves something
}

// RunOnce ends reservations that are over, and makes the entries in the mesh log that are due. It
// reports whether anything is left to watch.
func (b *Book) RunOnce(ctx context.Context) bool {
	b.changing.Lock()
	defer b.changing.Unlock()
	err := b.endOver(ctx)
	if err == nil {
		err = b.unfold(ctx)
	}
	if err != nil && ctx.Err() == nil {
		b.config.Log.Warn("reservations that are over could not be ended; it is tried again", claim.AttrError, err)
	}
	return len(b.live) > 0 || len(b.folds) > 0
}

// Claimed reports a change of a claim. Reservations that end with it end soon.
func (b *Book) Claimed(c claim.Hold) {
	if c.State == claim.Held {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range b.live {
		if e.Claim == c.ID {
			b.loop.Wake()
			return
		}
	}
}
