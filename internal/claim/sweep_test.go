package claim_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

func TestSweep(t *testing.T) {
	tests := []struct {
		name   string
		change func(*task.Task)
		swept  bool
	}{
		{"stale", func(*task.Task) {}, true},
		{"live", func(t *task.Task) { t.ClaimedAt = bubbleStart.Add(-31 * time.Minute) }, false},
		{"open", func(t *task.Task) { t.Status = task.Open }, false},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, false},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, false},
		{"reserved by a person", func(t *task.Task) { t.ClaimedAt = time.Time{} }, false},
		{"in progress without a holder", unclaim, false},
		{"trashed", func(t *task.Task) { t.Trashed = true }, false},
		{"void, and stale", func(t *task.Task) { t.Token = "void " + t.Token }, true},
		{"not by us, and stale", func(t *task.Task) { t.Token = "mine!" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := staleTask()
			tt.change(&first)
			inWorld(t, first, func(w *world) {
				d := w.daemon("a")
				want := w.Page(page)
				former, swept, err := d.Sweep(w.ctx, page)
				w.ok(err)
				if swept != tt.swept {
					t.Fatalf("swept = %v, want %v", swept, tt.swept)
				}
				var events []claim.Kind
				if swept {
					want.Status = task.Open
					unclaim(&want)
					want.Note = "Reopened: the claim of Ghost ran out at 1999-12-31 22:31 UTC — dibs, 2000-01-01 00:00 UTC"
					events = []claim.Kind{claim.KindSwept}
					if former != "Ghost" {
						t.Errorf("former holder %q, want Ghost", former)
					}
				}
				if diff := cmp.Diff(want, w.Page(page)); diff != "" {
					t.Errorf("page (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(events, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A sweep looks again before its last step: what a person does to the marked card stands.
func TestPersonEditsDuringASweep(t *testing.T) {
	tests := []struct {
		name string
		edit func(*task.Task)
		want func(*task.Task) // what the page shows in the end, from what the edit left
	}{
		{"taken", func(t *task.Task) { t.ClaimedBy = "Maria" }, func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }},
		{"reserved", func(t *task.Task) { t.ClaimedBy, t.ClaimedAt = "Maria", time.Time{} }, nil},
		{"taken, and opened", func(t *task.Task) { t.ClaimedBy, t.Status = "Maria", task.Open }, func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, unclaim},
		{"cancelled", func(t *task.Task) { t.Status = task.Cancelled }, unclaim},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, unclaim},
		{"opened", func(t *task.Task) { t.Status = task.Open }, unclaim},
		{"cleared", func(t *task.Task) { unclaim(t); t.Status = task.Open }, func(*task.Task) {}},
		{"trashed", func(t *task.Task) { t.Trashed = true }, func(*task.Task) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, staleTask(), func(w *world) {
				d := w.daemon("a")
				edited := make(chan task.Task, 1)
				time.AfterFunc(time.Second, func() { // while the mark settles
					w.Edit(page, tt.edit)
					edited <- w.Page(page)
				})
				_, swept, err := d.Sweep(w.ctx, page)
				if swept || err != nil {
					t.Errorf("swept = %v, %v; want the person's edit respected", swept, err)
				}
				w.sync(10*time.Minute, d)
				want, got := <-edited, w.Page(page)
				if tt.want == nil {
					got.Token, want.Token = "", "" // it does not matter beside a name without a date
				} else {
					tt.want(&want)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("page (-want +got):\n%s", diff)
				}
				for _, k := range kinds(d) {
					if k == claim.KindSwept {
						t.Error("it is logged as swept")
					}
				}
			})
		})
	}
}

func TestSweepOfAMissingPage(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		_, swept, err := w.daemon("a").Sweep(w.ctx, otherPage)
		if swept || err != nil {
			t.Errorf("swept = %v, error %v; want nothing", swept, err)
		}
	})
}

// A stale claim of this daemon ends when its task is swept.
func TestSweepOfOnesOwn(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt))
		if _, swept, err := d.Sweep(w.ctx, page); swept || err != nil {
			t.Fatalf("at StaleAt: swept = %v, error %v", swept, err)
		}
		time.Sleep(time.Second)
		former, swept, err := d.Sweep(w.ctx, page)
		if former != "Sandman" || !swept || err != nil {
			t.Fatalf("swept = %v of %q, error %v", swept, former, err)
		}
		if got := w.record(d, c.ID); got.Ending != claim.EndSwept {
			t.Errorf("the claim is %s, %s; want it swept", got.State, got.Ending)
		}
		_, err = d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.lost(err)
		w.claim(d, "Oracle")
	})
}

// What an agent has finished is told to Notion before anything is swept.
func TestSweepLeavesAFinish(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.On(firstMinutes(60, sim.Completions), sim.RequestDropped))
		c := w.claim(d, "Sandman")
		_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.ok(err)
		time.Sleep(50 * time.Minute)
		if _, swept, err := d.Sweep(w.ctx, page); swept || err != nil {
			t.Errorf("swept = %v, error %v; want the finish left to be delivered", swept, err)
		}
		w.sync(30*time.Minute, d)
		w.finished(c, task.Completed)
	})
}

// Duplicating a page in Notion duplicates its claim token.
func TestSweepOfADuplicate(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		duplicate := w.Page(page)
		duplicate.ID = otherPage
		w.Add(duplicate)
		time.Sleep(20 * time.Minute)
		_, err := d.Renew(w.ctx, c.ID)
		w.ok(err)
		time.Sleep(15 * time.Minute)
		if _, swept, err := d.Sweep(w.ctx, otherPage); !swept || err != nil {
			t.Errorf("swept = %v, error %v; want the duplicate swept", swept, err)
		}
		if got := w.record(d, c.ID); got.State != claim.Held {
			t.Errorf("the claim on the original is %s, %s; want it held", got.State, got.Ending)
		}
	})
}

// A duplicate of a page with an abandoned claim must not keep the daemon busy.
func TestDuplicateOfAnAbandonedClaim(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		time.AfterFunc(time.Second, func() {
			duplicate := w.Page(page)
			duplicate.ID = otherPage
			w.Add(duplicate)
		})
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.sync(2*time.Minute, d)
		w.shows(task.Open, "", "")
		sent := len(d.Store.Calls())
		w.sync(10*time.Minute, d)
		if n := len(d.Store.Calls()) - sent; n != 0 {
			t.Errorf("%d requests after the withdrawal, want none", n)
		}
	})
}

// Whatever becomes of the two writes of a sweep, the task is reopened, and that
// is logged once.
func TestFateOfTheSweep(t *testing.T) {
	tests := []struct {
		name  string
		fault sim.Fault
	}{
		{"none", sim.Slow(0, 0)},
		{"answer dropped", sim.AnswerDropped},
		{"saved but 503", sim.SavedBut503},
		{"409, saved", sim.Fails(409, true)},
		{"landing during the settle wait", sim.Late(time.Second)},
		{"landing later", sim.Late(20 * time.Second)},
		{"landing while another sweep settles", sim.Late(62 * time.Second)},
		{"applied late", sim.AppliedLate(20 * time.Second)},
		{"answered late", sim.Slow(0, 5*time.Second)},
		{"landing and answered late", sim.Slow(5*time.Second, 0)},
		{"request dropped", sim.RequestDropped},
		{"504", sim.Fails(504, false)},
		{"not applied", sim.NotApplied},
		{"turned away", sim.TurnedAway(429, time.Second)},
		{"refused", sim.WriteRefused},
	}
	for _, step := range []sim.Kind{sim.Voidings, sim.Openings} {
		for _, tt := range tests {
			t.Run(string(step)+", "+tt.name, func(t *testing.T) {
				inWorld(t, staleTask(), func(w *world) {
					d := w.daemon("a", sim.InTurn(step, tt.fault))
					for range 10 {
						_, swept, err := d.Sweep(w.ctx, page)
						if swept && (err != nil || w.Page(page).Status != task.Open) {
							t.Errorf("swept, error %v, and the page is %s", err, w.Page(page).Status)
						}
						w.sync(time.Minute, d)
					}
					w.shows(task.Open, "", "")
					if diff := cmp.Diff([]claim.Kind{claim.KindSwept}, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					if got := d.Ledger.Events()[0]; got.Agent != "Ghost" || got.Holder != "Ghost" || got.Claim != ghost || !got.Remote {
						t.Errorf("event %+v, want Ghost's claim swept", got)
					}
					time.Sleep(24 * time.Hour)
					w.sync(time.Minute, d)
					w.none(d)
				})
			})
		}
	}
}

// A mark that lands on the next claim, long after a later sweep did the work, is
// withdrawn, and nothing is swept a second time.
func TestMarkOfAnEarlierSweep(t *testing.T) {
	inWorld(t, staleTask(), func(w *world) {
		d, other := w.daemon("a", sim.InTurn(sim.Voidings, sim.Late(3*time.Minute))), w.daemon("b")
		if _, swept, err := d.Sweep(w.ctx, page); swept || err == nil {
			t.Fatalf("swept = %v, error %v; want the mark on its way", swept, err)
		}
		w.sync(time.Minute, d)
		if _, swept, err := d.Sweep(w.ctx, page); !swept || err != nil {
			t.Fatalf("swept = %v, error %v", swept, err)
		}
		w.claim(other, "Oracle")
		w.sync(10*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
		if diff := cmp.Diff([]claim.Kind{claim.KindSwept, claim.KindWithdrawn}, kinds(d)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A sweep and an override compete for a stale task. However slow the sweep's
// writes are, whoever is granted the task keeps it.
func TestSlowSweepAgainstAnOverride(t *testing.T) {
	step := 150 * time.Millisecond
	if testing.Short() || testkit.Race {
		step *= 4
	}
	for _, steps := range [][]sim.Kind{{sim.Voidings}, {sim.Openings}, {sim.Voidings, sim.Openings}} {
		for _, slow := range []time.Duration{0, time.Second, 4 * time.Second, 9 * time.Second} {
			for after := time.Duration(0); after < 10*time.Second; after += step {
				inWorld(t, staleTask(), func(w *world) {
					Sweeper := w.daemon("a", sim.On(sim.Every(steps...), sim.Slow(slow, 0)))
					b, c := w.start(steady("b")), w.start(steady("c"))
					var wg sync.WaitGroup
					wg.Go(func() { _, _, _ = Sweeper.Sweep(w.ctx, page) })
					var granted []claim.Hold
					time.Sleep(after)
					for len(granted) == 0 {
						granted = w.race(entrant{daemon: b, agent: "Oracle"})
						w.sync(time.Second, Sweeper, b)
					}
					wg.Wait()
					// Should both fail, the task is open after a grace.
					if took := time.Since(bubbleStart); took > 2*time.Minute {
						t.Errorf("%v slow by %v, override after %v: granted only after %v", steps, slow, after, took)
					}
					for range 12 {
						w.sync(sim.SyncInterval, Sweeper, b)
						w.deny(c, "Hypnos", claim.CodeHeld)
					}
					if got := w.only(b).State; got != claim.Held {
						t.Errorf("%v slow by %v, override after %v: the claim is %s, want held", steps, slow, after, got)
					}
					w.shows(task.InProgress, "Oracle", string(granted[0].ID))
				})
			}
		}
	}
}

// A sweep of somebody else's stale claim does not end a claim of an agent here,
// which has been lost without its being noticed yet.
func TestSweepOverALostClaim(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		w.Edit(page, func(t *task.Task) { *t = staleTask() })
		if _, swept, err := d.Sweep(w.ctx, page); !swept || err != nil {
			t.Fatalf("swept = %v, error %v", swept, err)
		}
		w.lost(d.Guard(w.ctx, c.ID, nil))
		if got := w.record(d, c.ID); got.Ending != claim.EndLost {
			t.Errorf("the claim ended as %s, want lost", got.Ending)
		}
	})
}

// Both steps of a withdrawal have fates of their own. What landed is not written
// again, and the mark stays for a grace at least.
func TestFateOfTheWithdrawal(t *testing.T) {
	faults := []struct {
		name   string
		fault  sim.Fault
		landed bool
	}{
		{"answer dropped", sim.AnswerDropped, true},
		{"saved but 503", sim.SavedBut503, true},
		{"504, saved", sim.Fails(504, true), true},
		{"answered late", sim.Slow(0, 5*time.Second), true},
		{"landing late", sim.Late(5 * time.Second), true},
		{"applied late", sim.AppliedLate(5 * time.Second), true},
		{"sent after the machine was paused", sim.Halted(sim.Paused, 10*time.Minute), true},
		{"request dropped", sim.RequestDropped, false},
		{"409", sim.Fails(409, false), false},
		{"turned away", sim.TurnedAway(429, 40*time.Second), false},
		{"not applied", sim.NotApplied, false},
	}
	for _, step := range []sim.Kind{sim.Voidings, sim.Openings} {
		for _, tt := range faults {
			t.Run(string(step)+", "+tt.name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					tried := 0
					counted := sim.On(func(_ task.ID, w *claim.Write) bool {
						if sim.KindOf(w) == step {
							tried++
						}
						return false
					}, nil)
					d := w.daemon("a", counted,
						sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)),
						sim.InTurn(step, tt.fault))
					w.deny(d, "Sandman", claim.CodeNotionUnavailable)
					w.sync(5*time.Minute, d)
					w.shows(task.Open, "", "")
					w.none(d)
					if diff := cmp.Diff([]claim.Kind{claim.KindDenied, claim.KindWithdrawn}, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					want := 2
					if tt.landed {
						want = 1
					}
					if tried != want {
						t.Errorf("%d tries, want %d", tried, want)
					}
					w.graced(d)
				})
			})
		}
	}
}

// graced checks that the page was opened no sooner than a grace after a void mark was on it.
func (w *world) graced(d *sim.Daemon) {
	w.Helper()
	var marked, reopened time.Time
	for _, v := range w.History(page) {
		switch {
		case strings.HasPrefix(v.Task.Token, "void ") && marked.IsZero():
			marked = v.From
		case !marked.IsZero() && v.Task.Token == "" && reopened.IsZero():
			reopened = v.From
		}
	}
	if got := reopened.Sub(marked); got < d.Policy().Grace-time.Second {
		w.Errorf("reopened %v after the mark, want a grace of %v", got, d.Policy().Grace)
	}
}

// A void mark is tried again no sooner than Notion allows, if that is within reason.
func TestWithdrawalWaitsAsItIsTold(t *testing.T) {
	for _, asked := range []time.Duration{20 * time.Minute, 48 * time.Hour} {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a",
				sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)),
				sim.InTurn(sim.Voidings, sim.TurnedAway(429, asked)))
			w.deny(d, "Sandman", claim.CodeNotionUnavailable)
			sent := len(d.Store.Calls())
			w.sync(20*time.Minute, d)
			if n := len(d.Store.Calls()) - sent; n != 0 {
				t.Errorf("Notion asked to wait for %v, and %d requests were sent within 20 minutes", asked, n)
			}
			if asked == 20*time.Minute {
				w.sync(2*time.Minute, d)
				w.shows(task.Open, "", "")
			}
			w.sync(time.Hour, d)
			w.none(d)
		})
	}
}

// A withdrawal that comes too late leaves the task to whoever wants it.
func TestWithdrawalAfterTheLease(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		void := w.Page(page)
		time.Sleep(40 * time.Minute)
		w.sync(time.Minute, d)
		if diff := cmp.Diff(void, w.Page(page)); diff != "" {
			t.Errorf("the page changed:\n%s", diff)
		}
		w.none(d)
		w.claim(d, "Oracle")
	})
}

// An abandoned write that landed is noticed by any read of its page.
func TestSightedByTheProtocolItself(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Late(10*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		time.Sleep(10 * time.Second)
		w.deny(d, "Oracle", claim.CodeHeld)
		for range 2 {
			next, err := d.RunDue(w.ctx)
			w.ok(err)
			time.Sleep(max(0, next.Sub(d.Store.Now())) + time.Second)
		}
		_, err := d.RunDue(w.ctx)
		w.ok(err)
		w.shows(task.Open, "", "")
	})
}

// A copy of a page is not its claim's page.
func TestSightedOnACopy(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.RequestDropped))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		other := openTask()
		hold(&other, "Sandman", bubbleStart)
		other.ID, other.Token = otherPage, string(w.onlyMark(d).ID)
		w.Add(other)
		_, err := d.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: other})
		w.denied(err)
		if due := w.onlyMark(d).Due; !due.IsZero() {
			t.Errorf("due at %v, want the attempt to be watched for as before", due)
		}
	})
}

// A person's hand on a task that is being withdrawn goes first.
func TestPersonEditsDuringTheWithdrawal(t *testing.T) {
	tests := []struct {
		name string
		edit func(*task.Task)
		want func(*task.Task) // what the page shows in the end, from what the edit left
	}{
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, unclaim},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, unclaim},
		{"opened", func(t *task.Task) { t.Status = task.Open }, unclaim},
		{"cleared", func(t *task.Task) { unclaim(t); t.Status = task.Open }, func(*task.Task) {}},
		{"taken", func(t *task.Task) { t.ClaimedBy = "Maria" }, func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }},
		{"trashed", func(t *task.Task) { t.Trashed = true }, func(*task.Task) {}},
	}
	for _, before := range []bool{true, false} {
		for _, tt := range tests {
			name := tt.name + " after the mark"
			if before {
				name = tt.name + " before the mark"
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					d := w.daemon("a", sim.InTurn(sim.Claims, sim.Late(8*time.Second)))
					w.deny(d, "Sandman", claim.CodeNotionUnavailable)
					time.Sleep(10 * time.Second)
					if !before {
						w.sync(time.Second, d)
						if got := w.onlyMark(d).State; got != claim.Voided {
							t.Fatalf("the attempt is %s, want it voided", got)
						}
					}
					w.Edit(page, tt.edit)
					want := w.Page(page)
					tt.want(&want)
					events := []claim.Kind{claim.KindDenied}
					switch {
					case want.ClaimedBy != "" && !want.Trashed:
						events = append(events, claim.KindCleared)
					case !cmp.Equal(want, w.Page(page)):
						events = append(events, claim.KindWithdrawn)
					}
					sent := len(d.Store.Calls())
					w.sync(10*time.Minute, d)
					if diff := cmp.Diff(want, w.Page(page)); diff != "" {
						t.Errorf("page (-want +got):\n%s", diff)
					}
					if n := len(d.Store.Calls()) - sent; n > 4 {
						t.Errorf("%d requests were sent after the edit, want few", n)
					}
					if diff := cmp.Diff(events, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					time.Sleep(25 * time.Hour)
					w.sync(time.Minute, d)
					w.none(d)
				})
			})
		}
	}
}

func unclaim(t *task.Task) { t.ClaimedBy, t.ClaimedAt, t.Token = "", time.Time{}, "" }

// A void mark that lands on the claim of a rival, which was written at the same time, leaves
// nothing that is half the rival's: its attempt fails, and the task is reopened after the
// grace.
func TestVoidMarkOverARival(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)), sim.InTurn(sim.Voidings, sim.Slow(time.Second, 0)))
		time.AfterFunc(5500*time.Millisecond, func() {
			w.Edit(page, func(t *task.Task) {
				t.ClaimedBy, t.ClaimedAt, t.Token = "Oracle", time.Now(), string(claim.NewID(time.Now()))
			})
		})
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.sync(2*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}

// preceded is a store before whose writes something else happens.
type preceded struct {
	claim.Store
	by func()
}

func (p preceded) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	p.by()
	return p.Store.Write(ctx, id, w)
}

// A late claim may land between the reading of an OPEN task and the write that takes a mark off
// it. The task is OPEN afterwards: IN_PROGRESS without a name, only a person could open it.
func TestLateClaimBeforeAMarkIsTakenOff(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		late := func() { w.Edit(page, func(t *task.Task) { hold(t, "Oracle", time.Now()) }) }
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)),
			sim.InTurn(sim.Openings, func(s claim.Store) claim.Store { return preceded{s, late} }))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
		w.sync(2*time.Minute, d)
		w.shows(task.Open, "", "")
		w.claim(w.daemon("b"), "Hypnos")
	})
}
