package claim_test

import (
	"context"
	"errors"
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

// Each step that is owed is taken once, whoever asks for it.
func TestRunDueTwiceAtOnce(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		o := steady("a")
		d := w.start(o, sim.InTurn(sim.Claims, sim.Late(10*time.Second)))
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
