package claim_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// Notion has been seen to say in passing that it does not know a page. Only if it says
// so twice a claim is lost.
func TestPageUnknownInPassing(t *testing.T) {
	notFound := sim.ReadFails(claim.NotFound)
	for name, do := range map[string]func(d *sim.Daemon, c claim.Hold) error{
		"finish": func(d *sim.Daemon, c claim.Hold) error {
			_, err := d.Finish(context.Background(), c.ID, claim.Finish{As: claim.EndCompleted})
			return err
		},
		"guard": func(d *sim.Daemon, c claim.Hold) error { return d.Guard(context.Background(), c.ID, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, notFound))
				w.ok(do(d, w.claim(d, "Sandman")))
			})
		})
		t.Run(name+", gone", func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, notFound, notFound))
				w.lost(do(d, w.claim(d, "Sandman")))
			})
		})
	}
}

// paused is the store of a machine whose clocks stood still, for that long, while its
// n-th write was on its way: by the Dates of all later answers more time has passed.
type paused struct {
	claim.Store
	kind  sim.Kind
	stood time.Duration
	ahead *time.Duration
}

func (s paused) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := s.Store.Get(ctx, id)
	r.At = r.At.Add(*s.ahead)
	return r, err
}

func (s paused) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	r, err := s.Store.Write(ctx, id, w)
	if sim.KindOf(&w) == s.kind && *s.ahead == 0 {
		*s.ahead = s.stood
	}
	r.At = r.At.Add(*s.ahead)
	return r, err
}

// What was written while this machine's clocks stood still, as those of a paused
// virtual machine do, may have come too late, whatever they say.
func TestClocksStoodStill(t *testing.T) {
	pausing := func(kind sim.Kind, stood time.Duration) sim.Fault {
		return func(s claim.Store) claim.Store { return paused{s, kind, stood, new(time.Duration)} }
	}
	t.Run("claim", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", pausing(sim.Claims, 6*time.Second))
			w.deny(d, "Sandman", claim.CodeNotionUnavailable)
			w.sync(2*time.Minute, d)
			w.shows(task.Open, "", "")
		})
	})
	t.Run("sweep", func(t *testing.T) {
		inWorld(t, staleTask(), func(w *world) {
			d := w.daemon("a", pausing(sim.Voidings, 6*time.Second))
			if _, swept, _ := d.Sweep(w.ctx, page); swept {
				t.Error("swept by a mark that may have come too late")
			}
		})
	})
	t.Run("no longer than Dates tell", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			w.claim(w.daemon("a", pausing(sim.Claims, time.Second)), "Sandman")
		})
	})
}
