package claim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

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
