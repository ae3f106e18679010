package claim_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// RunDue says when it is wanted next.
func TestRunDueSaysWhen(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		next, err := d.RunDue(w.ctx)
		if !next.IsZero() || err != nil {
			t.Errorf("with nothing owed: %v, %v", next, err)
		}
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		next, err = d.RunDue(w.ctx)
		w.ok(err)
		if want := d.Store.Now().Add(d.Policy().Grace); next.Before(want.Add(-time.Second)) || next.After(want) {
			t.Errorf("next = %v, want %v", next, want)
		}
		time.Sleep(time.Until(next) + time.Second)
		next, err = d.RunDue(w.ctx)
		if !next.IsZero() || err != nil {
			t.Errorf("once done: %v, %v", next, err)
		}
		w.shows(task.Open, "", "")
	})
}

// What is owed is tried again less and less often while Notion is down, and
// RunDue never asks to be called in the past.
func TestRunDueBacksOff(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		down := sim.On(func(_ task.ID, w *claim.Write) bool {
			return w == nil && time.Since(bubbleStart) > 4*time.Second
		}, sim.ReadFails(claim.Unavailable))
		d := w.daemon("a", down, sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		tries := 0
		for time.Since(bubbleStart) < 6*time.Hour {
			w.ok(errOf(d.Sighted(w.ctx, w.Page(page).Token))) // as the mirror does all the time
			next, _ := d.RunDue(w.ctx)
			if !next.After(d.Store.Now()) {
				t.Fatalf("at %v, next = %v", d.Store.Now(), next)
			}
			tries++
			time.Sleep(next.Sub(d.Store.Now()))
		}
		if tries < 60 || tries > 100 {
			t.Errorf("%d tries in 6 hours, want one every 5 minutes and some more in the beginning", tries)
		}
	})
}

// noPermits is a store that gives none.
type noPermits struct {
	claim.Store
	denied func() bool
}

func (s noPermits) Permit(ctx context.Context, n int) (context.Context, error) {
	if s.denied() {
		return nil, errors.New("no permit to be had")
	}
	return s.Store.Permit(ctx, n)
}

func TestNoPermits(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		var denied bool
		d := w.daemon("a",
			func(s claim.Store) claim.Store { return noPermits{s, func() bool { return denied }} },
			sim.InTurn(sim.Claims, nil, sim.Late(10*time.Second)))
		c := w.claim(d, "Sandman")
		denied = true
		got, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
		if got.State != claim.Finishing {
			t.Errorf("the claim is %s, want finishing", got.State)
		}
		next, _ := d.RunDue(w.ctx)
		if !next.After(d.Store.Now()) {
			t.Errorf("next = %v, which is past", next)
		}
		denied = false
		w.sync(time.Minute, d)
		w.finished(c, task.Open)

		w.deny(d, "Oracle", claim.CodeNotionUnavailable) // its write is late
		time.Sleep(10 * time.Second)
		w.ok(errOf(d.Sighted(w.ctx, w.Page(page).Token)))
		denied = true
		next, _ = d.RunDue(w.ctx)
		if !next.After(d.Store.Now()) {
			t.Errorf("next = %v, which is past", next)
		}
		if _, err := d.Claim(w.ctx, request("Hypnos")); err == nil {
			t.Error("granted without a permit")
		}
		denied = false
		w.sync(3*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}

// Each step that is owed is taken once, whoever asks for it.
func TestRunDueTwiceAtOnce(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		o := steady("a")
		d := w.start(o, sim.InTurn(sim.Claims, sim.Late(10*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		time.Sleep(10 * time.Second)
		w.ok(errOf(d.Sighted(w.ctx, w.Page(page).Token)))
		for step := range 2 {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if _, err := d.RunDue(w.ctx); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := count(d, sim.Openings); n != step {
				t.Errorf("step %d: %d writes that reopen the task", step, n)
			}
			time.Sleep(time.Minute)
		}
		for _, kind := range []sim.Kind{sim.Voidings, sim.Openings} {
			if n := count(d, kind); n != 1 {
				t.Errorf("%d writes of kind %s, want 1", n, kind)
			}
		}
		w.none(d)
	})
}

// The steps that are owed do not wait for an attempt, nor take it for dead.
func TestRunDueDuringAnAttempt(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		for _, at := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second} {
			time.AfterFunc(at, func() {
				begun := time.Now()
				if err := d.Recover(w.ctx); err != nil {
					t.Error(err)
				}
				if _, err := d.RunDue(w.ctx); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took != 0 {
					t.Errorf("took %v, want it not to wait", took)
				}
			})
		}
		w.claim(d, "Sandman")
	})
}

// What an earlier run of the daemon left in each state.
func TestRecover(t *testing.T) {
	left := func(s claim.State) claim.Hold {
		c := claim.Hold{
			ID: claim.NewID(bubbleStart), Agent: "Sandman", Task: openTask(), State: s,
			Reserved: bubbleStart, Lease: claim.Lease{ClaimedAt: bubbleStart, Timeout: 30 * time.Minute},
		}
		if s != claim.Reserved && s != claim.Writing {
			c.Started, c.StaleAt = bubbleStart, sim.Policy().StaleAt(bubbleStart, 30*time.Minute)
		}
		return c
	}
	type at = func(*task.Task, claim.Hold)
	bare := func(*task.Task, claim.Hold) {}
	written := func(t *task.Task, c claim.Hold) { hold(t, c.Agent, bubbleStart); t.Token = string(c.ID) }
	taken := func(t *task.Task, _ claim.Hold) { hold(t, "Oracle", bubbleStart) }
	void := func(t *task.Task, c claim.Hold) { written(t, c); t.Token = "void " + t.Token }
	trashed := func(t *task.Task, c claim.Hold) { written(t, c); t.Trashed = true }
	person := func(t *task.Task, _ claim.Hold) { t.Status, t.ClaimedBy = task.InProgress, "Maria" }
	soon := bubbleStart.Add(30 * time.Second)
	denied, withdrawn, never := claim.KindDenied, claim.KindWithdrawn, claim.EndNotGranted
	type kindsOf = []claim.Kind
	for _, tt := range []struct {
		name  string
		state claim.State
		mark  claim.MarkState // of what is left of an attempt
		due   time.Time
		page  at

		ending claim.Ending // none if it is held in the end
		kinds  kindsOf
		status task.Status
	}{
		{"reserved", claim.Reserved, "", time.Time{}, bare, never, kindsOf{denied}, task.Open},
		{"writing, not written", claim.Writing, "", time.Time{}, bare, never, kindsOf{denied}, task.Open},
		{"writing, written", claim.Writing, "", time.Time{}, written, never, kindsOf{denied, withdrawn}, task.Open},
		{"writing, overwritten", claim.Writing, "", time.Time{}, taken, never, kindsOf{denied}, task.InProgress},
		{"held", claim.Held, "", time.Time{}, written, "", nil, task.InProgress},
		{"held, lost meanwhile", claim.Held, "", time.Time{}, bare, claim.EndLost, kindsOf{claim.KindLost}, task.Open},
		{"finishing", claim.Finishing, "", time.Time{}, written, claim.EndCompleted, kindsOf{claim.KindCompleted}, task.Completed},
		{"finishing, but lost", claim.Finishing, "", time.Time{}, person, claim.EndLost, kindsOf{claim.KindLost, claim.KindOrphaned}, task.InProgress},
		{"abandoned", claim.Reserved, claim.Abandoned, bubbleStart, written, never, kindsOf{withdrawn}, task.Open},
		{"abandoned, not seen yet", claim.Reserved, claim.Unseen, time.Time{}, written, never, kindsOf{withdrawn}, task.Open},
		{"abandoned, marked by a write that was not noted", claim.Reserved, claim.Abandoned, bubbleStart, void, never, kindsOf{withdrawn}, task.Open},
		{"abandoned, in the trash", claim.Reserved, claim.Abandoned, bubbleStart, trashed, never, nil, task.InProgress},
		{"voided", claim.Reserved, claim.Voided, soon, void, never, kindsOf{withdrawn}, task.Open},
		{"voided, but the mark did not take", claim.Reserved, claim.Voided, soon, written, never, kindsOf{withdrawn}, task.Open},
		{"voided, and taken back by a holder", claim.Reserved, claim.Voided, soon, taken, never, nil, task.InProgress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := left(tt.state)
				if tt.state == claim.Finishing {
					c.Finish, c.Due = &claim.Finish{As: claim.EndCompleted, At: bubbleStart}, bubbleStart.Add(time.Hour) // it had been put off
				}
				w.Edit(page, func(t *task.Task) { tt.page(t, c) })
				_, refusal, err := d.Ledger.Reserve(w.ctx, c, bubbleStart, 0)
				if refusal != nil || err != nil {
					t.Fatal(refusal, err)
				}
				change := claim.Change{Holds: []claim.Hold{c}}
				if tt.mark != "" {
					ended := c
					ended.State, ended.Ending, ended.Ended = claim.Ended, claim.EndNotGranted, bubbleStart
					change.Holds[0] = ended
					change.Marks = []claim.Mark{{
						ID: c.ID, Why: claim.Withdrawn, Of: c.ID, Agent: c.Agent, Task: c.Task, State: tt.mark, Made: c.Reserved, Lease: c.Lease, Due: tt.due,
					}}
				}
				w.ok(d.Ledger.Save(w.ctx, change))

				w.ok(d.Restart(w.ctx))
				if got := w.record(d, c.ID).State; got == claim.Reserved || got == claim.Writing {
					t.Errorf("after Recover the claim is %s", got)
				}
				w.sync(5*time.Minute, d)
				if _, marks := w.live(d); len(marks) > 0 && marks[0].State == claim.Unseen { // what never showed is watched for a day
					time.Sleep(25 * time.Hour)
					w.sync(time.Minute, d)
				}
				if _, marks := w.live(d); len(marks) > 0 {
					t.Errorf("marks that are left: %+v", marks)
				}
				got := w.record(d, c.ID)
				if (got.State == claim.Held) != (tt.ending == "") || got.Ending != tt.ending {
					t.Errorf("the claim is %s, %s; want it ended as %s", got.State, got.Ending, tt.ending)
				}
				same(t, "events", tt.kinds, kinds(d))
				for _, f := range d.Ledger.Events() { // the same entry, however often a finish is delivered
					if finish := f.Kind == claim.KindCompleted || f.Kind == claim.KindOrphaned; finish != (f.ID == string(c.ID)) {
						t.Errorf("the fact that it was %s is %s", f.Kind, f.ID)
					}
				}
				if got := w.Page(page).Status; got != tt.status {
					t.Errorf("the page is %s, want %s", got, tt.status)
				}
			})
		})
	}
}

// A claim verified only after its lease had ended is not granted: it may be
// overridden at any moment.
func TestVerifiedTooLate(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", func(s claim.Store) claim.Store { return &sleepy{Store: s} })
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.sync(2*time.Minute, d)
		w.none(d)
		w.claim(d, "Oracle")
	})
}

// sleepy is the store of a machine that is suspended for an hour before its
// second request for permits.
type sleepy struct {
	claim.Store
	permits int
}

func (s *sleepy) Permit(ctx context.Context, n int) (context.Context, error) {
	if s.permits++; s.permits == 2 {
		time.Sleep(time.Hour)
	}
	return s.Store.Permit(ctx, n)
}

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
					w.ok(errOf(d.Renew(w.ctx, c.ID)))
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
				w.ok(errOf(d.Renew(w.ctx, c.ID)))
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
		w.ok(errOf(d.RunDue(w.ctx)))
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
		w.ok(errOf(d.RunDue(w.ctx)))
		_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
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
