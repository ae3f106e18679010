package claim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// deposing is a store after whose next reading somebody else leads the ledger.
type deposing struct {
	claim.Store
	ledger *sim.Ledger
	armed  *bool
}

func (d deposing) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := d.Store.Get(ctx, id)
	if *d.armed {
		*d.armed = false
		d.ledger.Lead()
	}
	return r, err
}

// A daemon that was deposed while it read a page writes nothing to it, whatever it was at.
func TestDeposedWritesNothing(t *testing.T) {
	tests := map[string]struct {
		first task.Task
		// before leads up to what act does, which is what the daemon is deposed at.
		before func(*world, *sim.Daemon) claim.Hold
		act    func(*world, *sim.Daemon, claim.Hold) error
	}{
		"claim": {act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			_, err := d.Claim(w.ctx, request("Sandman"))
			return err
		}},
		"renewal": {before: held, act: func(w *world, d *sim.Daemon, c claim.Hold) error {
			time.Sleep(20 * time.Minute)
			_, err := d.Renew(w.ctx, c.ID)
			return err
		}},
		"renewal by itself": {before: held, act: func(w *world, d *sim.Daemon, c claim.Hold) error {
			time.Sleep(time.Minute)
			_, err := d.Renew(w.ctx, c.ID)
			w.ok(err)
			time.Sleep(20 * time.Minute)
			return d.KeepAlive(w.ctx)
		}},
		"finish": {before: held, act: func(w *world, d *sim.Daemon, c claim.Hold) error {
			_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased})
			return err
		}},
		"finish that is owed": {before: owing, act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			_, err := d.RunDue(w.ctx)
			return err
		}},
		"sweep": {first: staleTask(), act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			_, _, err := d.Sweep(w.ctx, page)
			return err
		}},
		"repair": {before: held, act: func(w *world, d *sim.Daemon, c claim.Hold) error {
			w.Edit(page, func(t *task.Task) { t.Token = "void " + string(claim.NewID(time.Now())) })
			return d.Guard(w.ctx, c.ID, nil)
		}},
		"withdrawal": {before: cutShort, act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			_, err := d.RunDue(w.ctx)
			return err
		}},
		"clearing": {before: voided, act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			_, err := d.RunDue(w.ctx)
			return err
		}},
		"stepping aside": {before: voided, act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			w.Edit(page, func(t *task.Task) { t.ClaimedBy = "Maria" })
			_, err := d.RunDue(w.ctx)
			return err
		}},
		"what is left of a lost claim": {before: held, act: func(w *world, d *sim.Daemon, c claim.Hold) error {
			w.Edit(page, func(t *task.Task) { t.Status = task.Open })
			return d.Guard(w.ctx, c.ID, nil)
		}},
		"a claim that is over": {before: undone, act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			_, err := d.Tidy(w.ctx, w.Page(page))
			return err
		}},
		"a claim that is over, under another name": {before: undone, act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
			w.Edit(page, func(t *task.Task) { t.ClaimedBy = "Maria" })
			_, err := d.Tidy(w.ctx, w.Page(page))
			return err
		}},
		"reopening": {
			first: task.Task{ID: page, Title: "Mend the roof", Status: task.Blocked},
			act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
				_, _, err := d.Reopen(w.ctx, claim.Reopening{Task: task.Task{ID: page}})
				return err
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.first.ID == "" {
				tt.first = openTask()
			}
			inWorld(t, tt.first, func(w *world) {
				ledger, armed := sim.NewLedger(), false
				d := w.start(sim.DaemonOptions{
					StoreOptions: sim.StoreOptions{Name: "a"}, Ledger: ledger,
					Fault: func(s claim.Store) claim.Store { return deposing{s, ledger, &armed} },
				})
				var c claim.Hold
				if tt.before != nil {
					c = tt.before(w, d)
				}
				written := len(w.History(page))
				armed = true
				err := tt.act(w, d, c)
				if armed {
					t.Fatalf("the page was not read (%v)", err)
				}
				if journal := (*claim.JournalError)(nil); !errors.As(err, &journal) {
					t.Errorf("error %v, want that of the ledger", err)
				}
				for _, v := range w.History(page)[written:] {
					if v.By != "" {
						t.Errorf("it wrote %+v", v.Task)
					}
				}
			})
		})
	}
}

// held has Sandman hold the page.
func held(w *world, d *sim.Daemon) claim.Hold { return w.claim(d, "Sandman") }

// owing has Sandman be done with the page, of which Notion has yet to be told.
func owing(w *world, d *sim.Daemon) claim.Hold {
	c := held(w, d)
	c.State, c.Finish, c.Due = claim.Finishing, &claim.Finish{As: claim.EndReleased}, time.Now()
	w.ok(d.Ledger.Save(w.ctx, claim.Change{Holds: []claim.Hold{c}}))
	w.ok(d.Restart(w.ctx))
	return c
}

// cutShort leaves a claim on the page that was written by a daemon which ended then.
func cutShort(w *world, d *sim.Daemon) claim.Hold {
	c := held(w, d)
	c.State, c.Started = claim.Writing, time.Time{}
	w.ok(d.Ledger.Save(w.ctx, claim.Change{Holds: []claim.Hold{c}}))
	w.ok(d.Restart(w.ctx))
	return c
}

// voided leaves such a claim marked, and to be taken off.
func voided(w *world, d *sim.Daemon) claim.Hold {
	c := cutShort(w, d)
	_, err := d.RunDue(w.ctx)
	w.ok(err)
	time.Sleep(time.Minute)
	return c
}

// undone has a claim show on its page that is over, as an undo does.
func undone(w *world, d *sim.Daemon) claim.Hold {
	c := held(w, d)
	was := w.Page(page)
	_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased})
	w.ok(err)
	w.Edit(page, func(t *task.Task) { *t = was })
	return c
}
