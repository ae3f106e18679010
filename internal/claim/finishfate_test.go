package claim_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Whatever becomes of the write that finishes a claim, it is delivered, the
// agent is not told that the claim is lost, and it is logged once.
func TestFateOfTheFinish(t *testing.T) {
	faults := []struct {
		name  string
		fault sim.Fault
	}{
		{"answer dropped", sim.AnswerDropped},
		{"request dropped", sim.RequestDropped},
		{"saved but 503", sim.SavedBut503},
		{"409", sim.Fails(409, false)},
		{"409, saved", sim.Fails(409, true)},
		{"500", sim.Fails(500, false)},
		{"502", sim.Fails(502, false)},
		{"504, saved", sim.Fails(504, true)},
		{"turned away", sim.TurnedAway(429, 40*time.Second)},
		{"not applied", sim.NotApplied},
		{"answered late", sim.Slow(0, 5*time.Second)},
		{"landing late", sim.Late(2 * time.Second)},
		{"landing much later", sim.Late(20 * time.Second)},
		{"applied late", sim.AppliedLate(2 * time.Second)},
	}
	for _, tt := range finishes {
		for _, f := range faults {
			for times, fault := range map[string]sim.Fault{
				"first": sim.InTurn(tt.write, f.fault),
				"third": sim.InTurn(tt.write, sim.RequestDropped, sim.RequestDropped, f.fault),
				"every": sim.On(firstMinutes(10, tt.write), f.fault),
			} {
				t.Run(tt.name+", "+f.name+", "+times, func(t *testing.T) {
					inWorld(t, openTask(), func(w *world) {
						d := w.daemon("a", fault)
						c := w.claim(d, "Sandman")
						got, err := d.Finish(w.ctx, c.ID, tt.finish)
						w.ok(err)
						if got.State != claim.Ended && got.State != claim.Finishing {
							t.Errorf("the claim is %s, want it ended or finishing", got.State)
						}
						w.sync(15*time.Minute, d)

						// The agent asks again, having heard nothing.
						got, err = d.Finish(w.ctx, c.ID, tt.finish)
						w.ok(err)
						if got.State != claim.Ended || got.Ending != tt.finish.As {
							t.Errorf("the claim is %s, %s; want it ended as %s", got.State, got.Ending, tt.finish.As)
						}
						w.finished(c, tt.status)
						if diff := cmp.Diff([]claim.Kind{claim.KindGranted, tt.kind}, kinds(d)); diff != "" {
							t.Errorf("events (-want +got):\n%s", diff)
						}
					})
				})
			}
		}
	}
}

// firstMinutes chooses the requests of a kind for the bubble's first n minutes.
func firstMinutes(n int, kind sim.Kind) sim.Pick {
	return func(_ task.ID, w *claim.Write) bool {
		return sim.KindOf(w) == kind && time.Since(bubbleStart) < time.Duration(n)*time.Minute
	}
}

// An agent that released the task, whose answer was lost, and which somebody
// else took since, has released it.
func TestReleasedAndTakenBeforeTheAnswer(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a := w.daemon("a", sim.InTurn(sim.Openings, sim.AnswerDropped))
		b := w.daemon("b")
		c := w.claim(a, "Sandman")
		var granted []claim.Hold
		var wg sync.WaitGroup
		wg.Go(func() { granted = w.race(entrant{daemon: b, agent: "Oracle", after: time.Second}) })
		got, err := a.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
		if got.Ending != claim.EndReleased {
			t.Errorf("ended as %s, want released", got.Ending)
		}
		wg.Wait()
		if len(granted) != 1 {
			t.Fatalf("%d claims were granted, want Oracle's", len(granted))
		}
		w.shows(task.InProgress, "Oracle", string(granted[0].ID))
	})
}

// A finish that was never sent is not taken for delivered because somebody else has the task: a
// person may have handed it on.
func TestFinishUnsentAndTaken(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a, b := w.daemon("a"), w.daemon("b")
		c := w.claim(a, "Sandman")
		w.Edit(page, func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }) // Sandman's, whoever that is
		other := w.claim(b, "Sandman")
		got, err := a.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndFailed, Reopen: true, Summary: "no ladder"})
		w.ok(err)
		if got.State != claim.Finishing {
			t.Errorf("the claim is %s, want finishing until the other one is explained", got.State)
		}
		w.sync(2*time.Minute, a, b)
		if got := w.record(a, c.ID); got.Ending != claim.EndLost {
			t.Errorf("the claim is %s, %s; want it lost", got.State, got.Ending)
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindLost, claim.KindOrphaned}, kinds(a)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.shows(task.InProgress, "Sandman", string(other.ID))
	})
}

// A completion whose answer was lost stays a completion when a person reopens
// the task meanwhile.
func TestCompletedAndReopenedBeforeTheAnswer(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Completions, sim.AnswerDropped))
		c := w.claim(d, "Sandman")
		time.AfterFunc(time.Second, func() { w.Edit(page, func(t *task.Task) { t.Status = task.Open }) })
		got, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.ok(err)
		if got.Ending != claim.EndCompleted {
			t.Errorf("ended as %s, want completed", got.Ending)
		}
		// It is open to all again, although its last claim is still to be seen.
		w.claim(d, "Oracle")
	})
}

// With Notion down, a finish is accepted, journalled and delivered later, once.
func TestFinishWithNotionDown(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, tt := range finishes {
			name := tt.name
			if restart {
				name += ", with a restart"
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					var down bool
					d := w.daemon("a", sim.On(func(_ task.ID, w *claim.Write) bool { return down && w == nil }, sim.ReadFails(claim.Unavailable)))
					c := w.claim(d, "Sandman")
					down = true
					got, err := d.Finish(w.ctx, c.ID, tt.finish)
					w.ok(err)
					if got.State != claim.Finishing {
						t.Fatalf("the claim is %s, want finishing", got.State)
					}
					w.deny(d, "Oracle", claim.CodeHeld)
					if restart {
						w.ok(d.Restart(w.ctx))
					}
					w.sync(20*time.Minute, d)
					if got := w.only(d).State; got != claim.Finishing {
						t.Fatalf("the claim is %s, want finishing", got)
					}
					down = false
					w.sync(6*time.Minute, d)
					w.none(d)
					w.finished(c, tt.status)
					if n := count(d, tt.write); n != 1 {
						t.Errorf("%d writes of the finish, want 1", n)
					}
					events := d.Ledger.Events()
					var finish []claim.Fact
					for _, e := range events {
						if e.Kind == tt.kind {
							finish = append(finish, e)
						}
					}
					if len(finish) != 1 || !finish[0].Finished.Equal(got.Finish.At) || finish[0].Summary != tt.finish.Summary {
						t.Errorf("events of the finish: %+v, want one, finished at %v", finish, got.Finish.At)
					}
				})
			})
		}
	}
}

// The daemon dies after the write that finishes a claim, and before it could
// note that.
func TestCrashAfterTheFinish(t *testing.T) {
	for _, tt := range finishes {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.start(steady("a"))
				c := w.claim(d, "Sandman")
				crash := errors.New("crash")
				time.AfterFunc(350*time.Millisecond, func() { d.Ledger.Break(crash) })
				if _, err := d.Finish(w.ctx, c.ID, tt.finish); !errors.Is(err, crash) {
					t.Fatalf("error %v, want %v", err, crash)
				}
				d.Ledger.Break(nil)
				w.ok(d.Restart(w.ctx))
				w.sync(time.Minute, d)
				w.none(d)
				w.finished(c, tt.status)
				if diff := cmp.Diff([]claim.Kind{claim.KindGranted, tt.kind}, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The agent asks again once what it said has landed after all.
func TestFinishAgainAfterALateWrite(t *testing.T) {
	for _, tt := range finishes {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				late := sim.Late(time.Minute)
				d := w.daemon("a", sim.InTurn(tt.write, late, late, late))
				c := w.claim(d, "Sandman")
				got, err := d.Finish(w.ctx, c.ID, tt.finish)
				w.ok(err)
				if got.State != claim.Finishing {
					t.Fatalf("the claim is %s, want finishing", got.State)
				}
				time.Sleep(2 * time.Minute)
				got, err = d.Finish(w.ctx, c.ID, tt.finish)
				w.ok(err)
				if got.State != claim.Ended || got.Ending != tt.finish.As || !got.Due.IsZero() {
					t.Errorf("the claim is %s, %s, due at %v; want it ended as %s", got.State, got.Ending, got.Due, tt.finish.As)
				}
				w.finished(c, tt.status)
			})
		})
	}
}

// An agent that is done after its lease competes with whoever overrides its
// claim. However slow its write is, whoever is granted the task keeps it.
func TestSlowFinishAgainstAnOverride(t *testing.T) {
	for _, tt := range finishes {
		for _, slow := range []time.Duration{0, time.Second, 4 * time.Second, 9 * time.Second} {
			for after := time.Duration(0); after < 10*time.Second; after += 500 * time.Millisecond {
				inWorld(t, openTask(), func(w *world) {
					a := w.daemon("a", sim.On(sim.Every(tt.write, sim.Renewals), sim.Slow(slow, 0)))
					b := w.start(steady("b"))
					c := w.claim(a, "Sandman")
					time.Sleep(time.Until(c.StaleAt) + time.Second)
					var granted []claim.Hold
					var wg sync.WaitGroup
					wg.Go(func() { granted = w.race(entrant{daemon: b, agent: "Oracle", after: after}) })
					_, err := a.Finish(w.ctx, c.ID, tt.finish)
					wg.Wait()
					w.sync(2*time.Minute, a, b)
					if len(granted) == 0 {
						if err != nil {
							t.Errorf("%s slow by %v, override after %v: nobody has the task: %v", tt.name, slow, after, err)
						}
						return
					}
					if got := w.only(b).State; got != claim.Held {
						t.Errorf("%s slow by %v, override after %v: the claim is %s, want held", tt.name, slow, after, got)
					}
					w.shows(task.InProgress, "Oracle", string(granted[0].ID))
				})
			}
		}
	}
}
