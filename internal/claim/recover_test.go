package claim_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// A caller that goes away leaves nothing behind, whenever it goes.
func TestCallerGone(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, at := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 350 * time.Millisecond, 2 * time.Second, 3550 * time.Millisecond} {
			name := at.String()
			if keep {
				name += ", kept"
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					d := w.start(steady("a"))
					ctx, cancel := context.WithCancel(w.ctx)
					time.AfterFunc(at, cancel)
					r := request("Sandman")
					r.Keep = keep
					c, err := d.Claim(ctx, r)
					// From the claim write on, the attempt is seen through.
					if keep && at >= 200*time.Millisecond {
						w.ok(err)
						if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
							t.Errorf("claim %s is %s, want %s held", got.ID, got.State, c.ID)
						}
						w.shows(task.InProgress, "Sandman", string(c.ID))
						return
					}
					if err == nil {
						t.Fatal("granted, although nobody hears it")
					}
					w.sync(2*time.Minute, d)
					w.none(d)
					w.shows(task.Open, "", "")
					w.claim(d, "Oracle")
				})
			})
		}
	}
}

// A caller that goes away between the read and the write has nothing written.
func TestCallerGoneBeforeTheWrite(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx)
		o := claimtest.DaemonOptions{Blockers: func(context.Context, task.Task) ([]task.ID, error) {
			cancel()
			return nil, nil
		}}
		d := w.start(o)
		if _, err := d.Claim(ctx, request("Sandman")); err == nil {
			t.Error("granted, although nobody hears it")
		}
		if n := count(d, claimtest.Claims); n != 0 {
			t.Errorf("%d claim writes, want none", n)
		}
		w.none(d)
	})
}

// A caller may go away while it waits for its turn on the task.
func TestCallerGoneWhileWaiting(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt) + time.Second)
		go d.Renew(w.ctx, c.ID) // has the task to itself for some seconds
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := d.Claim(ctx, request("Oracle"))
		if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable {
			t.Errorf("denied %+v", denied)
		}
		time.Sleep(time.Minute)
		if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
			t.Errorf("%s of %s is %s, want Sandman's held", got.ID, got.Agent, got.State)
		}
	})
}

// The daemon stops in the middle of an attempt; the next one takes it back.
func TestCloseDuringAnAttempt(t *testing.T) {
	for _, at := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 350 * time.Millisecond, 2 * time.Second, 3450 * time.Millisecond, 3550 * time.Millisecond} {
		t.Run(at.String(), func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.start(steady("a"))
				time.AfterFunc(at, d.Close)
				_, err := d.Claim(w.ctx, request("Sandman"))
				if err == nil {
					t.Fatal("granted by a daemon that was stopped")
				}
				w.ok(d.Restart(w.ctx))
				w.sync(5*time.Minute, d)
				w.shows(task.Open, "", "")
				w.claim(d, "Oracle")
			})
		})
	}
}

// What an earlier run of the daemon left in each state.
func TestRecover(t *testing.T) {
	left := func(s claim.State) claim.Claim {
		c := claim.Claim{
			ID: claim.NewID(bubbleStart), Agent: "Sandman", Task: openTask(), State: s,
			Reserved: bubbleStart, ClaimedAt: bubbleStart, Timeout: 30 * time.Minute,
		}
		if s != claim.Reserved && s != claim.Writing {
			c.Started, c.StaleAt = bubbleStart, claimtest.Policy().StaleAt(bubbleStart, 30*time.Minute)
		}
		return c
	}
	written := func(t *task.Task, c claim.Claim) { hold(t, c.Agent, bubbleStart); t.Token = string(c.ID) }
	tests := []struct {
		name  string
		state claim.State
		claim func(*claim.Claim)
		page  func(*task.Task, claim.Claim)

		held   bool // in the end
		ending claim.Ending
		kinds  []claim.Kind
		status task.Status
	}{
		{
			name: "reserved", state: claim.Reserved, page: func(*task.Task, claim.Claim) {},
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied}, status: task.Open,
		},
		{
			name: "writing, not written", state: claim.Writing, page: func(*task.Task, claim.Claim) {},
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied}, status: task.Open,
		},
		{
			name: "writing, written", state: claim.Writing, page: written,
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied, claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "writing, overwritten", state: claim.Writing,
			page:   func(t *task.Task, _ claim.Claim) { hold(t, "Oracle", bubbleStart) },
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied}, status: task.InProgress,
		},
		{name: "held", state: claim.Held, page: written, held: true, status: task.InProgress},
		{
			name: "held, lost meanwhile", state: claim.Held, page: func(*task.Task, claim.Claim) {},
			ending: claim.EndLost, kinds: []claim.Kind{claim.KindLost}, status: task.Open,
		},
		{
			name: "finishing", state: claim.Finishing, page: written,
			claim: func(c *claim.Claim) {
				c.Finish = &claim.Finish{As: claim.EndCompleted, At: bubbleStart}
				c.Due = bubbleStart.Add(time.Hour) // it had been put off
			},
			ending: claim.EndCompleted, kinds: []claim.Kind{claim.KindCompleted}, status: task.Completed,
		},
		{
			name: "finishing, but lost", state: claim.Finishing,
			page: func(t *task.Task, _ claim.Claim) { t.Status, t.ClaimedBy = task.InProgress, "Maria" },
			claim: func(c *claim.Claim) {
				c.Finish = &claim.Finish{As: claim.EndCompleted, At: bubbleStart}
			},
			ending: claim.EndLost, kinds: []claim.Kind{claim.KindLost, claim.KindOrphaned}, status: task.InProgress,
		},
		{
			name: "abandoned", state: claim.Abandoned, page: written,
			claim:  func(c *claim.Claim) { c.Due = bubbleStart },
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "abandoned, not seen yet", state: claim.Abandoned, page: written,
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "abandoned, marked by a write that was not noted", state: claim.Abandoned,
			page:   func(t *task.Task, c claim.Claim) { written(t, c); t.Token = "void " + t.Token },
			claim:  func(c *claim.Claim) { c.Due = bubbleStart },
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "abandoned, in the trash", state: claim.Abandoned,
			page:   func(t *task.Task, c claim.Claim) { written(t, c); t.Trashed = true },
			claim:  func(c *claim.Claim) { c.Due = bubbleStart },
			ending: claim.EndNotGranted, status: task.InProgress,
		},
		{
			name: "voided", state: claim.Voided,
			page:   func(t *task.Task, c claim.Claim) { written(t, c); t.Token = "void " + t.Token },
			claim:  func(c *claim.Claim) { c.Due = bubbleStart.Add(30 * time.Second) },
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "voided, but the mark did not take", state: claim.Voided, page: written,
			claim:  func(c *claim.Claim) { c.Due = bubbleStart.Add(30 * time.Second) },
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "voided, and taken back by a holder", state: claim.Voided,
			page:   func(t *task.Task, _ claim.Claim) { hold(t, "Oracle", bubbleStart) },
			claim:  func(c *claim.Claim) { c.Due = bubbleStart.Add(30 * time.Second) },
			ending: claim.EndNotGranted, status: task.InProgress,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := left(tt.state)
				if tt.claim != nil {
					tt.claim(&c)
				}
				w.Edit(page, func(t *task.Task) { tt.page(t, c) })
				refusal, err := d.Ledger.Reserve(w.ctx, c, bubbleStart, 0)
				if refusal != nil || err != nil {
					t.Fatal(refusal, err)
				}
				w.ok(d.Ledger.Save(w.ctx, c))

				w.ok(d.Restart(w.ctx))
				if got := w.record(d, c.ID).State; got == claim.Reserved || got == claim.Writing {
					t.Errorf("after Recover the claim is %s", got)
				}
				w.sync(5*time.Minute, d)
				got := w.record(d, c.ID)
				if got.State == claim.Abandoned { // what never showed is watched for a day
					time.Sleep(25 * time.Hour)
					w.sync(time.Minute, d)
					got = w.record(d, c.ID)
				}
				if tt.held {
					if got.State != claim.Held {
						t.Errorf("the claim is %s, want held", got.State)
					}
				} else if got.State != claim.Ended || got.Ending != tt.ending {
					t.Errorf("the claim is %s, %s; want it ended as %s", got.State, got.Ending, tt.ending)
				}
				if diff := cmp.Diff(tt.kinds, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if got := w.Page(page).Status; got != tt.status {
					t.Errorf("the page is %s, want %s", got, tt.status)
				}
			})
		})
	}
}

// RunDue says when it is wanted next.
func TestRunDueSaysWhen(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", claimtest.InTurn(claimtest.Claims, claimtest.Slow(0, 5*time.Second)))
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
		down := claimtest.On(func(_ task.ID, w *claim.Write) bool {
			return w == nil && time.Since(bubbleStart) > 4*time.Second
		}, claimtest.ReadFails(claim.Unavailable))
		d := w.daemon("a", down, claimtest.InTurn(claimtest.Claims, claimtest.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		tries := 0
		for time.Since(bubbleStart) < 6*time.Hour {
			_, err := d.Sighted(w.ctx, w.Page(page).Token) // as the mirror does all the time
			w.ok(err)
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
			claimtest.InTurn(claimtest.Claims, nil, claimtest.Late(10*time.Second)))
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
		_, err = d.Sighted(w.ctx, w.Page(page).Token)
		w.ok(err)
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

// Each step that is owed is taken once, whoever asks for it.
func TestRunDueTwiceAtOnce(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		o := steady("a")
		d := w.start(o, claimtest.InTurn(claimtest.Claims, claimtest.Late(10*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		time.Sleep(10 * time.Second)
		_, err := d.Sighted(w.ctx, w.Page(page).Token)
		w.ok(err)
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
			if n := count(d, claimtest.Openings); n != step {
				t.Errorf("step %d: %d writes that reopen the task", step, n)
			}
			time.Sleep(time.Minute)
		}
		for _, kind := range []claimtest.Kind{claimtest.Voidings, claimtest.Openings} {
			if n := count(d, kind); n != 1 {
				t.Errorf("%d writes of kind %s, want 1", n, kind)
			}
		}
		w.none(d)
	})
}

// Without a token, an attempt that is being withdrawn is told from a later claim
// of the same agent by its minute.
func TestWithdrawalWithoutAToken(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		w.NoToken = true
		o := claimtest.DaemonOptions{Policy: claimtest.Policy()}
		o.Policy.Grace = 5 * time.Minute
		d := w.start(o, claimtest.InTurn(claimtest.Claims, claimtest.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		time.Sleep(time.Minute)
		w.Edit(page, func(t *task.Task) { unclaim(t); t.Status = task.Open })
		c := w.claim(d, "Sandman")
		w.sync(10*time.Minute, d)
		if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
			t.Errorf("%s is %s, want %s held", got.ID, got.State, c.ID)
		}
		w.shows(task.InProgress, "Sandman", "")
	})
	inWorld(t, openTask(), func(w *world) {
		w.NoToken = true
		d := w.daemon("a", claimtest.InTurn(claimtest.Claims, claimtest.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.sync(2*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}
