package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// freeings are the ways in which a daemon frees a task.
var freeings = map[string]struct {
	first func(*task.Task)
	do    func(w *world, d *sim.Daemon)
}{
	"a release": {do: func(w *world, d *sim.Daemon) {
		_, err := d.Finish(w.ctx, w.claim(d, "Sandman").ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
	}},
	"a release near the end of the lease": {do: func(w *world, d *sim.Daemon) {
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt.Add(-20 * time.Second)))
		_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
	}},
	"a failure": {do: func(w *world, d *sim.Daemon) {
		_, err := d.Finish(w.ctx, w.claim(d, "Sandman").ID, claim.Finish{As: claim.EndFailed, Reopen: true})
		w.ok(err)
	}},
	"a sweep": {
		first: func(t *task.Task) { *t = staleTask() },
		do:    func(w *world, d *sim.Daemon) { _, _, _ = d.Sweep(w.ctx, page) },
	},
	"a withdrawal": {do: func(w *world, d *sim.Daemon) {
		now := time.Now() // an attempt that was cut short
		h := claim.Hold{ID: claim.NewID(now), Agent: "Sandman", Task: openTask(), State: claim.Writing, Reserved: now, Lease: claim.Lease{ClaimedAt: now}}
		_, _, err := d.Ledger.Reserve(w.ctx, h, now, 0)
		w.ok(err)
		w.Edit(page, func(t *task.Task) {
			t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, h.Agent, now, string(h.ID)
		})
		w.ok(d.Restart(w.ctx))
	}},
	"a tidying": {do: func(w *world, d *sim.Daemon) {
		c := w.claim(d, "Sandman")
		was := w.Page(page)
		w.finish(d, c, claim.EndCompleted)
		w.Edit(page, func(t *task.Task) { *t = was })
	}},
	"a gesture": {do: func(w *world, d *sim.Daemon) {
		w.claim(d, "Sandman")
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
	}},
	"a reopening": {
		first: func(t *task.Task) { t.Status = task.Blocked },
		do:    func(w *world, d *sim.Daemon) { _, _ = w.reopen(d) },
	},
	"a reopening beside an old token": {
		first: func(t *task.Task) {
			t.Status, t.Token = task.Blocked, "done "+string(claim.NewID(time.Now().Add(-time.Hour)))+" Sandman"
		},
		do: func(w *world, d *sim.Daemon) { _, _ = w.reopen(d) },
	},
	"a reopening of a name": {
		first: func(t *task.Task) { *t = staleTask(); t.Status = task.Blocked },
		do:    func(w *world, d *sim.Daemon) { _, _ = w.reopen(d) },
	},
}

// freed frees a task, with a fate of the write that does, and returns who was granted it next, and
// when: by a daemon that is restarted at once, if again is set.
func freed(w *world, way string, again bool, fate sim.Fault) (next claim.Hold, after time.Duration) {
	d := w.daemon("a", sim.InTurn(sim.Openings, fate))
	began := time.Now()
	freeings[way].do(w, d)
	if again {
		w.ok(d.Restart(w.ctx))
	}
	for i := 0; time.Since(began) < 35*time.Minute; i++ {
		if _, err := d.RunDue(w.ctx); err != nil {
			w.Logf("%s: %v", way, err)
		}
		if i%15 == 1 {
			_ = d.Sync(w.ctx)
		}
		if c, err := d.Claim(w.ctx, request("Oracle")); err == nil {
			return c, time.Since(began)
		}
		if w.Page(page).Status == task.Blocked && i > 0 && i%30 == 0 {
			_, _ = w.reopen(d) // as its caller was told to
		}
		time.Sleep(time.Second)
	}
	w.Fatal("nobody is granted the task any more")
	return claim.Hold{}, 0
}

// A write that frees a task and was never answered may land a minute later. By then it has not
// freed the task under the next holder, whoever restarted meanwhile.
func TestFreeingWriteLandsLate(t *testing.T) {
	for way, f := range freeings {
		t.Run(way, func(t *testing.T) {
			first := openTask()
			if f.first != nil {
				f.first(&first)
			}
			for _, late := range []time.Duration{4 * time.Second, 20 * time.Second, time.Minute} {
				for _, again := range []bool{false, true} {
					inWorld(t, first, func(w *world) {
						c, after := freed(w, way, again, sim.Late(late))
						for range 75 {
							if p := w.Page(page); p.Token != string(c.ID) || p.ClaimedBy != c.Agent || p.Status != task.InProgress {
								w.Fatalf("landing after %v, restarted %v: granted after %v, and then the page shows %s, %q, token %q", late, again, after, p.Status, p.ClaimedBy, p.Token)
							}
							time.Sleep(time.Second)
						}
					})
				}
			}
		})
	}
}

// A write that was answered, shows on the page or was surely not sent delays nobody.
func TestFreeingWriteDelaysNobody(t *testing.T) {
	for way, f := range freeings {
		first := openTask()
		if f.first != nil {
			f.first(&first)
		}
		var usual time.Duration
		for _, tt := range []struct {
			name string
			fate sim.Fault
		}{{"answered", nil}, {"landed", sim.AnswerDropped}, {"turned away", sim.TurnedAway(429, time.Second)}} {
			inWorld(t, first, func(w *world) {
				_, after := freed(w, way, false, tt.fate)
				if usual == 0 {
					usual = after
				}
				if after > usual+45*time.Second {
					w.Errorf("%s, %s: granted again after %v, and otherwise after %v", way, tt.name, after, usual)
				}
			})
		}
	}
}
