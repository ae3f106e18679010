package claim_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// kept has Sandman claim the page, to be kept for that long.
func (w *world) kept(d *sim.Daemon, length time.Duration) claim.Hold {
	w.Helper()
	r := request("Sandman")
	r.Timeout = length
	c, err := d.Claim(w.ctx, r)
	w.ok(err)
	return c
}

// The lease is the page's, a day at most, whatever is asked for. Who asked trusts its claim until the
// earlier of the two ends, and is warned before that. The claim is given back once it is kept no
// longer, or renewed until then; and nothing of that is written to claim_timeout_minutes.
func TestKept(t *testing.T) {
	for name, tt := range map[string]struct {
		own, asked time.Duration // the task's lease length, and what is asked for
		silent     bool          // nothing is heard of the agent; otherwise it shows once that it lives
		lease      time.Duration // what others grant
		ends       time.Duration // after the claim, or after it was heard of the agent
		back       bool          // it is given back then, and not left to go stale
		renewals   int
	}{
		"shorter than the lease":         {asked: 10 * time.Minute, silent: true, lease: 30 * time.Minute, ends: 10 * time.Minute, back: true},
		"shorter, and heard of":          {asked: 10 * time.Minute, lease: 30 * time.Minute, ends: 10 * time.Minute, back: true},
		"longer than the lease":          {asked: 2 * time.Hour, silent: true, lease: 30 * time.Minute, ends: 2 * time.Hour, back: true, renewals: 6},
		"longer, and heard of":           {asked: time.Hour, lease: 30 * time.Minute, ends: time.Hour, back: true, renewals: 3},
		"as long as the lease":           {asked: 30 * time.Minute, silent: true, lease: 30 * time.Minute, ends: 30 * time.Minute, back: true},
		"longer than the task's own":     {own: 5 * time.Minute, asked: 12 * time.Minute, silent: true, lease: 5 * time.Minute, ends: 12 * time.Minute, back: true, renewals: 3},
		"none":                           {silent: true, lease: 30 * time.Minute, ends: 30 * time.Minute},
		"none, and the task has its own": {own: 5 * time.Minute, silent: true, lease: 5 * time.Minute, ends: 5 * time.Minute},
		"a task of a year":               {own: 365 * 24 * time.Hour, silent: true, lease: 24 * time.Hour, ends: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			first := openTask()
			first.Timeout = tt.own
			inWorld(t, first, func(w *world) {
				d, rival := w.daemon("a"), w.daemon("b")
				c := w.kept(d, tt.asked)
				end := c.ClaimedAt.Add(tt.lease)
				if kept := c.ClaimedAt.Add(tt.asked); tt.asked > 0 && kept.Before(end) {
					end = kept
				}
				if stale := bubbleStart.Add(time.Minute + tt.lease + 15*time.Second); !c.ExpiresAt().Equal(end) || !c.StaleAt.Equal(stale) {
					t.Errorf("it expires at %v, and is stale at %v; want %v, %v", c.ExpiresAt(), c.StaleAt, end, stale)
				}
				over := c.ClaimedAt.Add(tt.ends)
				if !tt.silent {
					w.sync(5*time.Minute, d)
					heard := d.Store.Now()
					_, err := d.Renew(w.ctx, c.ID)
					w.ok(err)
					over = heard.Add(tt.asked)
				}
				w.sync(time.Until(over)-sim.SyncInterval, d)
				w.deny(rival, "Oracle", claim.CodeHeld)
				if got := w.only(d); got.State != claim.Held || got.ExpiresAt().After(over) || !got.ExpiresAt().After(time.Now()) {
					t.Errorf("just before it ends it is %s, until %v; want until %v at most", got.State, got.ExpiresAt(), over)
				}
				if n := count(d, sim.Renewals); n != tt.renewals {
					t.Errorf("%d renewals, want %d", n, tt.renewals)
				}
				w.sync(4*sim.SyncInterval, d)
				if !tt.back {
					w.deny(rival, "Oracle", claim.CodeHeld)
				} else {
					w.shows(task.Open, "", "")
					w.none(d)
					_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
					if why := w.lost(err).Error(); !strings.Contains(why, "nothing was heard of Sandman for ") {
						t.Errorf("Sandman is told: %s", why)
					}
				}
				for _, call := range d.Store.Calls() {
					if call.Write != nil && call.Write.Timeout != nil {
						t.Errorf("%v was written to claim_timeout_minutes", *call.Write.Timeout)
					}
				}
				if got := w.Page(page).Timeout; got != tt.own {
					t.Errorf("the task has a lease of %v, want %v", got, tt.own)
				}
			})
		})
	}
}

// A claim that is given back because nothing was heard counts like one that went stale.
func TestGivenBackForSilenceIsATry(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		o := sim.DaemonOptions{Policy: sim.Policy()}
		o.Policy.MaxAttempts = 2
		d := w.start(o)
		for range 2 {
			w.shows(task.Open, "", "")
			w.kept(d, 5*time.Minute)
			w.sync(6*time.Minute, d)
		}
		if got := w.Page(page); got.Status != task.Blocked || !strings.Contains(got.Note, "tried 2 times: the claim of Sandman ran out") {
			t.Errorf("the task is %s: %s", got.Status, got.Note)
		}
	})
}

// What a ledger of an older version owes a page is put back once, when nobody has the task, unless
// somebody has changed it since.
func TestRepay(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(w *world, d *sim.Daemon, c claim.Hold) // what happens before the claim ends
		want   time.Duration
	}{
		"finished": {func(w *world, d *sim.Daemon, c claim.Hold) { w.finish(d, c, claim.EndCompleted) }, 45 * time.Minute},
		"given back after a day": {func(w *world, d *sim.Daemon, c claim.Hold) {
			for range 25 {
				_, err := d.Renew(w.ctx, c.ID)
				w.ok(err)
				w.sync(time.Hour, d)
			}
			w.finish(d, c, claim.EndReleased)
		}, 45 * time.Minute},
		"given back": {func(w *world, d *sim.Daemon, c claim.Hold) { w.finish(d, c, claim.EndReleased) }, 45 * time.Minute},
		"still held": {func(*world, *sim.Daemon, claim.Hold) {}, 2 * time.Hour},
		"changed": {func(w *world, d *sim.Daemon, c claim.Hold) {
			w.Edit(page, func(t *task.Task) { t.Timeout = time.Hour })
			w.finish(d, c, claim.EndReleased)
		}, time.Hour},
		"claimed soon": {func(w *world, d *sim.Daemon, c claim.Hold) {
			w.finish(d, c, claim.EndReleased)
			w.claim(d, "Oracle")
		}, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := w.claim(d, "Sandman")
				if err := json.Unmarshal([]byte(`{"requested": 7200000000000, "own": 2700000000000}`), &c.Lease); err != nil {
					t.Fatal(err)
				}
				w.ok(d.Ledger.Lead().Save(w.ctx, claim.Change{Holds: []claim.Hold{c}}))
				w.Edit(page, func(t *task.Task) { t.Timeout = 2 * time.Hour })
				w.ok(d.Restart(w.ctx))
				if got := w.record(d, c.ID); got.Requested != 2*time.Hour || got.Borrowed != (claim.Borrowed{}) {
					t.Errorf("the claim is kept for %v, and owes %+v", got.Requested, got.Borrowed)
				}
				tt.before(w, d, c)
				w.sync(2*time.Minute, d)
				if got := w.Page(page).Timeout; got != tt.want {
					t.Errorf("the task has a lease of %v, want %v", got, tt.want)
				}
				if tt.want == 45*time.Minute {
					w.none(d)
					w.Edit(page, func(t *task.Task) { t.Timeout = 2 * time.Hour })
					w.sync(2*time.Minute, d)
					if got := w.Page(page).Timeout; got != 2*time.Hour {
						t.Errorf("a person's lease became %v", got)
					}
				}
			})
		})
	}
}

// A clock that jumped ahead gives no claim back: Notion's decides.
func TestClockJumpsWhileAClaimIsKept(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.kept(d, 10*time.Minute)
		d.Store.SetSkew(time.Hour)
		_, err := d.RunDue(w.ctx)
		w.ok(err)
		w.shows(task.InProgress, "Sandman", string(c.ID))
		if got := w.only(d).State; got != claim.Held {
			t.Errorf("the claim is %s", got)
		}
	})
}

// While Notion does not answer, a claim that is kept no longer is looked at less and less often.
func TestGivingBackWaitsForNotion(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		gone, asked := false, 0
		d := w.daemon("a", sim.Outage(func() bool {
			if gone {
				asked++
			}
			return gone
		}))
		w.kept(d, 10*time.Minute)
		gone = true
		for time.Since(bubbleStart) < 25*time.Minute {
			_, _ = d.RunDue(w.ctx)
			time.Sleep(time.Second)
		}
		if asked == 0 || asked > 12 {
			t.Errorf("%d requests in a quarter of an hour", asked)
		}
		gone = false
		w.sync(6*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}

// A claim that something keeps alive is not given back, and one that a person took is the person's.
func TestNotGivenBack(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(sim.DaemonOptions{Policy: sim.Policy(), Kept: func(claim.ID) bool { return true }})
		w.kept(d, 5*time.Minute)
		w.sync(20*time.Minute, d)
		if got := w.only(d).State; got != claim.Held {
			t.Errorf("the claim is %s", got)
		}
	})
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.kept(d, 5*time.Minute)
		time.Sleep(6 * time.Minute)
		w.Edit(page, func(t *task.Task) { t.ClaimedBy = "Maria" })
		_, err := d.RunDue(w.ctx)
		w.ok(err)
		_, err = d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		if lost := w.lost(err); lost.Claim.LostTo != "Maria" {
			t.Errorf("it is lost to %q: %v", lost.Claim.LostTo, lost)
		}
	})
}

// TestRepayOfAMark is about an attempt that an older version abandoned, with the length that it wrote.
func TestRepayOfAMark(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		id := claim.NewID(time.Now())
		w.Edit(page, func(t *task.Task) {
			t.Status, t.ClaimedBy, t.ClaimedAt, t.Token, t.Timeout = task.InProgress, "Sandman", time.Now(), string(id), 2*time.Hour
		})
		m := claim.Mark{ID: id, Why: claim.Withdrawn, Of: id, Agent: "Sandman", Task: w.Page(page), State: claim.Abandoned, Made: time.Now(), Due: time.Now()}
		m.Borrowed = claim.Borrowed{Asked: 2 * time.Hour, Own: 45 * time.Minute}
		w.ok(d.Ledger.Lead().Save(w.ctx, claim.Change{Marks: []claim.Mark{m}}))
		w.ok(d.Restart(w.ctx))
		w.sync(10*time.Minute, d)
		if got := w.Page(page).Timeout; got != 45*time.Minute {
			t.Errorf("the task has a lease of %v, want 45m", got)
		}
		w.none(d)
	})
}
