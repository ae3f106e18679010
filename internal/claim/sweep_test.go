package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/task"

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
		d := w.daemon("a", claimtest.On(firstMinutes(60, claimtest.Completions), claimtest.RequestDropped))
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
		d := w.daemon("a", claimtest.InTurn(claimtest.Claims, claimtest.Slow(0, 5*time.Second)))
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

func TestFateOfTheSweep(t *testing.T) {
	tests := []struct {
		name  string
		fault claimtest.Fault
		swept bool // known at once
	}{
		{"answer dropped", claimtest.AnswerDropped, true},
		{"saved but 503", claimtest.SavedBut503, true},
		{"409, saved", claimtest.Fails(409, true), true},
		{"landing during the settle wait", claimtest.Late(time.Second), true},
		{"answered late", claimtest.Slow(0, 5*time.Second), true},
		{"request dropped", claimtest.RequestDropped, false},
		{"504", claimtest.Fails(504, false), false},
		{"not applied", claimtest.NotApplied, false},
		{"turned away", claimtest.TurnedAway(429, time.Second), false},
		{"landing later", claimtest.Late(20 * time.Second), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, staleTask(), func(w *world) {
				d := w.daemon("a", claimtest.InTurn(claimtest.Openings, tt.fault))
				_, swept, _ := d.Sweep(w.ctx, page)
				if swept != tt.swept {
					t.Fatalf("swept = %v, want %v", swept, tt.swept)
				}
				for range 3 { // the next ones see to it
					time.Sleep(time.Minute)
					_, _, err := d.Sweep(w.ctx, page)
					w.ok(err)
				}
				w.shows(task.Open, "", "")
			})
		})
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

// Where claims have no token, a finish that is owed goes first all the same.
func TestSweepWithoutAToken(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		w.NoToken = true
		d := w.daemon("a", claimtest.On(firstMinutes(60, claimtest.Completions), claimtest.RequestDropped))
		c := w.claim(d, "Sandman")
		_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.ok(err)
		time.Sleep(50 * time.Minute)
		if _, swept, err := d.Sweep(w.ctx, page); swept || err != nil {
			t.Errorf("swept = %v, error %v; want the finish left to be delivered", swept, err)
		}
		w.sync(30*time.Minute, d)
		if got := w.Page(page).Status; got != task.Completed {
			t.Errorf("the page is %s, want COMPLETED", got)
		}
	})
}
