package claim_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Whatever becomes of the claim write, it is sent once, granted only if it was
// there within the window, and taken back if it got there later.
func TestFateOfTheClaimWrite(t *testing.T) {
	type outcome int
	const (
		granted   outcome = iota
		forgotten         // never seen, and not granted
		withdrawn         // seen too late, taken back in two steps
		stale             // seen when its lease was over: free to be taken as it is
	)
	tests := []struct {
		name  string
		fault sim.Fault
		want  outcome
	}{
		{"answer dropped", sim.AnswerDropped, granted},
		{"saved but 503", sim.SavedBut503, granted},
		{"409, saved", sim.Fails(409, true), granted},
		{"500, saved", sim.Fails(500, true), granted},
		{"502, saved", sim.Fails(502, true), granted},
		{"504, saved", sim.Fails(504, true), granted},
		{"landing just within the window", sim.Slow(1500*time.Millisecond, 0), granted},
		{"answered just within the window", sim.Slow(0, 1500*time.Millisecond), granted},

		{"request dropped", sim.RequestDropped, forgotten},
		{"409", sim.Fails(409, false), forgotten},
		{"500", sim.Fails(500, false), forgotten},
		{"502", sim.Fails(502, false), forgotten},
		{"503", sim.Fails(503, false), forgotten},
		{"504", sim.Fails(504, false), forgotten},
		{"acknowledged but not applied", sim.NotApplied, forgotten},

		{"answered late", sim.Slow(0, 5*time.Second), withdrawn},
		{"saved, and failing late", func(s claim.Store) claim.Store { return sim.Slow(0, 5*time.Second)(sim.AnswerDropped(s)) }, withdrawn},
		{"landing late", sim.Slow(5*time.Second, 0), withdrawn},
		{"landing during the settle wait", sim.Late(time.Second), withdrawn},
		{"landing after the attempt", sim.Late(8 * time.Second), withdrawn},
		{"landing a minute later", sim.Late(time.Minute), withdrawn},
		{"landing hours later", sim.Late(5 * time.Hour), stale},
		{"acknowledged, and applied during the settle wait", sim.AppliedLate(time.Second), withdrawn},
		{"acknowledged, and applied much later", sim.AppliedLate(time.Minute), withdrawn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.start(steady("a"), sim.InTurn(sim.Claims, tt.fault))
				c, err := d.Claim(w.ctx, request("Sandman"))
				if tt.want == granted {
					w.ok(err)
					w.shows(task.InProgress, "Sandman", string(c.ID))
					if n := count(d, sim.Claims); n != 1 {
						t.Errorf("%d claim writes, want 1", n)
					}
					if diff := cmp.Diff([]claim.Kind{claim.KindGranted}, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					return
				}
				if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable || denied.Err == nil {
					t.Fatalf("denied %+v, want notion_unavailable, with a cause", denied)
				}
				want := claim.Unseen
				if w.Page(page).ClaimedBy != "" {
					want = claim.Voided // what is there is marked at once
				}
				if got := w.onlyMark(d).State; got != want {
					t.Fatalf("the attempt is %s, want it %s", got, want)
				}
				w.sync(5*time.Minute, d)
				time.Sleep(5 * time.Hour)
				w.sync(time.Minute, d)
				time.Sleep(20 * time.Hour)
				w.sync(time.Minute, d)

				if tt.want != stale {
					w.shows(task.Open, "", "")
				}
				w.none(d)
				if n := count(d, sim.Claims); n > 1 {
					t.Errorf("%d claim writes, want 1", n)
				}
				events := []claim.Kind{claim.KindDenied}
				var marked []task.Status
				if tt.want == withdrawn {
					events = append(events, claim.KindWithdrawn)
					marked = []task.Status{task.InProgress} // nobody takes it meanwhile
				}
				if diff := cmp.Diff(events, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				var void []task.Status
				for _, v := range w.History(page) {
					if strings.HasPrefix(v.Task.Token, "void ") {
						void = append(void, v.Task.Status)
					}
				}
				if !slices.Equal(void, marked) {
					t.Errorf("the page was marked void with status %v, want %v", void, marked)
				}
				w.claim(d, "Oracle")
			})
		})
	}
}

// A claim that Notion acknowledged without showing it is not known to be there,
// and may take effect in the middle of a rival's attempt.
func TestAcknowledgedButAppliedDuringARivalsAttempt(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a := w.daemon("a", sim.InTurn(sim.Claims, sim.AppliedLate(2900*time.Millisecond)))
		b := w.daemon("b", sim.Slow(time.Second, 0))
		granted := w.race(entrant{daemon: a, agent: "Sandman"}, entrant{daemon: b, agent: "Oracle", after: 2800 * time.Millisecond})
		if len(granted) != 1 {
			t.Errorf("%d agents were granted the task, want 1", len(granted))
		}
	})
}

// While a claim's fate is being enquired into, somebody else may get the task:
// that is a lost race, not an outage.
func TestUnknownFateAndARival(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a := w.daemon("a", sim.InTurn(sim.Claims, sim.RequestDropped))
		b := w.daemon("b")
		var granted []claim.Hold
		var wg sync.WaitGroup
		wg.Go(func() { granted = w.race(entrant{daemon: b, agent: "Oracle", after: time.Second}) })
		denied := w.deny(a, "Sandman", claim.CodeLostRace)
		wg.Wait()
		if len(granted) != 1 {
			t.Errorf("%d claims were granted, want Oracle's", len(granted))
		}
		if denied.Holder != "Oracle" {
			t.Errorf("denied %+v, want Oracle as holder", denied)
		}
		if got := w.onlyMark(a).State; got != claim.Unseen {
			t.Errorf("the attempt is %s, want it unseen: its write may still arrive", got)
		}
	})
}

func TestTurnedAway(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Claims, sim.TurnedAway(429, time.Second)))
			w.claim(d, "Sandman")
			// It starts over at the read.
			want := []sim.Kind{sim.Reads, sim.Reads, sim.Claims, sim.Reads}
			if diff := cmp.Diff(want, requests(d)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("always", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", sim.TurnedAway(529, 7*time.Second))
			if denied := w.deny(d, "Sandman", claim.CodeNotionUnavailable); denied.RetryAfter == 0 {
				t.Errorf("denied %+v, want to be told when to try again", denied)
			}
			w.none(d)
		})
	})
	t.Run("for good", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", sim.WriteRefused)
			w.deny(d, "Sandman", claim.CodeNotionRefused)
			w.none(d)
			if n := count(d, sim.Reads); n != 1 {
				t.Errorf("%d reads, want 1: trying again changes nothing", n)
			}
		})
	})
}

// A read that uses up the window is followed by another read, not by a write.
func TestSlowReads(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		slow := sim.SlowRead(2 * time.Second)
		d := w.daemon("a", sim.InTurn(sim.Reads, slow), sim.InTurn(sim.Reads, nil, slow))
		w.claim(d, "Sandman")
		want := []sim.Kind{sim.Reads, sim.Reads, sim.Reads, sim.Claims, sim.Reads}
		if diff := cmp.Diff(want, requests(d)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.SlowRead(2*time.Second))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		if n := count(d, sim.Claims); n != 0 {
			t.Errorf("%d claim writes, want none", n)
		}
		w.none(d)
	})
}

func TestReadFailures(t *testing.T) {
	unavailable := sim.ReadFails(claim.Unavailable)
	t.Run("pre-flight", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, unavailable))
			w.deny(d, "Sandman", claim.CodeNotionUnavailable)
			w.none(d)
			w.shows(task.Open, "", "")
		})
	})
	t.Run("verifying read", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, nil, unavailable))
			w.deny(d, "Sandman", claim.CodeNotionUnavailable)
			w.sync(2*time.Minute, d)
			w.shows(task.Open, "", "")
			w.none(d)
		})
	})
	t.Run("every read after the write, for a while", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			pick := func(_ task.ID, w *claim.Write) bool {
				past := time.Since(bubbleStart)
				return w == nil && past > 0 && past < 10*time.Minute
			}
			d := w.daemon("a", sim.On(pick, unavailable))
			w.deny(d, "Sandman", claim.CodeNotionUnavailable)
			w.sync(20*time.Minute, d)
			w.shows(task.Open, "", "")
			w.none(d)
			if diff := cmp.Diff([]claim.Kind{claim.KindDenied, claim.KindWithdrawn}, kinds(d)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("page gone", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, nil, sim.ReadFails(claim.NotFound)))
			w.deny(d, "Sandman", claim.CodeNotFound)
		})
	})
}

// What the ledger cannot keep must not be granted, nor stay behind.
func TestBrokenLedger(t *testing.T) {
	for _, at := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 350 * time.Millisecond, time.Second} {
		t.Run(at.String(), func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.start(steady("a"))
				full := errors.New("no space left on device")
				time.AfterFunc(at, func() { d.Ledger.Break(full) })
				_, err := d.Claim(w.ctx, request("Sandman"))
				if !errors.Is(err, full) {
					t.Fatalf("error %v, want %v", err, full)
				}
				time.Sleep(time.Minute)
				d.Ledger.Break(nil)
				w.sync(5*time.Minute, d)
				w.none(d)
				w.shows(task.Open, "", "")
				w.claim(d, "Oracle")
			})
		})
	}
}
