package claimtest

import (
	"context"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// fence watches the reads and writes of one daemon, over all its runs. A write that ends or
// prolongs something must rest on a reading that showed a claim or a mark of that daemon; a
// write that reopens a task, on one that showed that nobody has it.
type fence struct {
	race   *race
	daemon int

	own *sync.Map // the tokens that it wrote, in any form

	mu   sync.Mutex
	last map[task.ID]task.Task // its last readings
}

func newFence(r *race, daemon int) *fence {
	return &fence{race: r, daemon: daemon, own: new(sync.Map), last: make(map[task.ID]task.Task)}
}

// another returns the fence for another machine that takes over the lead.
func (f *fence) another() *fence {
	return &fence{race: f.race, daemon: f.daemon, own: f.own, last: make(map[task.ID]task.Task)}
}

// fenced is a store that a fence watches.
type fenced struct {
	claim.Store
	*fence
}

func (f fenced) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := f.Store.Get(ctx, id)
	if err == nil {
		f.saw(r.Task)
	}
	return r, err
}

func (f fenced) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	f.sends(id, w)
	r, err := f.Store.Write(ctx, id, w)
	if err == nil {
		f.saw(r.Task)
	}
	return r, err
}

func (f *fence) saw(t task.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[t.ID] = t
}

func (f *fence) sends(id task.ID, w claim.Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := sim.KindOf(&w)
	mark := kind == sim.Voidings && w.ClaimedAt != nil
	t := f.last[id]
	if kind == sim.Claims || kind == sim.Voidings {
		defer f.own.Store(plain(*w.Token), nil)
	}
	if kind == sim.Claims || mark {
		return
	}
	over := claim.ParseToken(t.Token).Void && f.finishes(id) // an abandoned claim lies over its own
	reopens := f.race.reopens && kind == sim.Openings && f.nobodys(t)
	if _, own := f.own.Load(plain(t.Token)); !own && !over && !reopens {
		f.race.mu.Lock()
		defer f.race.mu.Unlock()
		f.race.wrong("daemon %d: sent a %s to a page that showed %q of %s, which is none of its own", f.daemon, kind, t.Token, t.ClaimedBy)
	}
}

// nobodys reports whether the task may be reopened: nobody can claim it, and no agent has it as
// far as the daemon knows.
func (f *fence) nobodys(t task.Task) bool {
	tok := claim.ParseToken(t.Token)
	shown := tok.ID != "" && !tok.Done && !f.race.over(tok.ID) &&
		(t.ClaimedAt.IsZero() || !time.Now().After(f.race.Policy.StaleAt(t.ClaimedAt, f.race.Policy.LeaseOf(t))))
	return !t.Trashed && !shown && (waits(t.Status) || t.Status == task.InProgress && t.ClaimedBy == "")
}

// finishes reports whether the daemon is finishing a claim on the task.
func (f *fence) finishes(id task.ID) bool {
	for _, c := range f.race.daemons[f.daemon].Load().Claims("") {
		if c.Task.ID == id && c.State == claim.Finishing {
			return true
		}
	}
	return false
}

// plain returns a token without its void or done prefix.
func plain(token string) string {
	if tok := claim.ParseToken(token); tok.ID != "" {
		return string(tok.ID)
	}
	return token
}
