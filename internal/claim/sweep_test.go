package claim_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
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
					w.Fatalf("swept = %v, want %v", swept, tt.swept)
				}
				var events []claim.Kind
				if swept {
					want.Status = task.Open
					unclaim(&want)
					want.Note = "Reopened: the claim of Ghost ran out at 1999-12-31 22:31 UTC — dibs, 2000-01-01 00:00 UTC"
					events = []claim.Kind{claim.KindSwept}
					const says = "its lease ran out at 22:31 UTC on Dec 31; it was claimed or last renewed at 1999-12-31 22:00 UTC"
					if last := latest(d); former != "Ghost" || last.Holder != "Ghost" || last.Detail != says {
						w.Errorf("swept of %q, %q, and says %q", former, last.Holder, last.Detail)
					}
				}
				w.pageIs(want)
				w.events(d, events...)
			})
		})
	}
}

// cleanups are the ways in which a claim is taken off a page, and the events that this leaves.
var cleanups = map[string]struct {
	first func() task.Task
	late  bool // the claim lands late
	// begin leads up to the mark, and goes on from there if it is not yet on the page. meanwhile is called when it is;
	// with early before it is written.
	begin  func(w *world, d *sim.Daemon, early bool, meanwhile func())
	before []claim.Kind
	kind   claim.Kind
}{
	"put right": {openTask, false, func(w *world, d *sim.Daemon, _ bool, meanwhile func()) {
		c := w.claim(d, "Sandman")
		was := w.Page(page)
		w.finish(d, c, claim.EndReleased)
		w.Edit(page, func(t *task.Task) { *t = was })
		w.sync(time.Second, d)
		meanwhile()
	}, []claim.Kind{claim.KindGranted, claim.KindReleased}, claim.KindCleared},
	"withdrawal": {openTask, true, func(w *world, d *sim.Daemon, early bool, meanwhile func()) {
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		if time.Sleep(10 * time.Second); !early {
			w.sync(time.Second, d)
		}
		meanwhile()
	}, []claim.Kind{claim.KindDenied}, claim.KindWithdrawn},
	"sweep": {staleTask, false, func(w *world, d *sim.Daemon, _ bool, meanwhile func()) {
		time.AfterFunc(time.Second, meanwhile) // while the mark settles
		_, _, _ = d.Sweep(w.ctx, page)
		time.Sleep(time.Second)
	}, nil, claim.KindSwept},
}

// lateClaim has the first claim land late, if it should.
func lateClaim(late bool) sim.Fault {
	if late {
		return sim.InTurn(sim.Claims, sim.Late(8*time.Second))
	}
	return sim.InTurn(sim.Claims)
}

// What a person does to a card while a claim is taken off it stands, before the mark and after it, and few requests
// are sent.
func TestPersonEditsWhileAClaimIsTakenOff(t *testing.T) {
	undated := func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }
	as := func(*task.Task) {}
	for what, tt := range map[string]struct{ edit, want func(*task.Task) }{ // want is what becomes of what the edit left
		"cancelled":         {status(task.Cancelled), unclaim},
		"blocked":           {status(task.Blocked), unclaim},
		"completed":         {status(task.Completed), unclaim},
		"opened":            {status(task.Open), unclaim},
		"cleared":           {func(t *task.Task) { unclaim(t); t.Status = task.Open }, as},
		"taken":             {named("Maria"), undated},
		"taken, and opened": {func(t *task.Task) { t.ClaimedBy, t.Status = "Maria", task.Open }, undated},
		"reserved":          {func(t *task.Task) { t.ClaimedBy, t.ClaimedAt = "Maria", time.Time{} }, nil},
		"trashed":           {func(t *task.Task) { t.Trashed = true }, as},
	} {
		for way, c := range cleanups {
			for name, early := range map[string]bool{"before the mark": true, "after the mark": false} {
				if early && way != "withdrawal" {
					continue // that is no stale claim, or none of the ledger's
				}
				play(t, what+" "+name+" of a "+way, c.first(), func(w *world) {
					d := w.daemon("a", lateClaim(c.late))
					var want task.Task
					var sent int
					c.begin(w, d, early, func() {
						w.Edit(page, tt.edit)
						want, sent = w.Page(page), len(d.Store.Calls())
					})
					w.sync(10*time.Minute, d)
					synctest.Wait()
					got := w.Page(page)
					if tt.want == nil {
						got.Token, want.Token = "", "" // it does not matter beside a name without a date
					} else {
						tt.want(&want)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						w.Errorf("page (-want +got):\n%s", diff)
					}
					if n := len(d.Store.Calls()) - sent; n > 4 {
						w.Errorf("%d requests were sent after the edit, want few", n)
					}
					if slices.Contains(kinds(d), claim.KindSwept) {
						w.Error("it is logged as swept")
					}
					time.Sleep(25 * time.Hour)
					w.sync(time.Minute, d)
					w.none(d)
				})
			}
		}
	}
}

// Whatever becomes of the two writes that take a claim off a page, the task is open in the end, and that is logged
// once. What landed is not written again by a withdrawal, and its mark stays for a grace at least.
func TestFateOfACleanup(t *testing.T) {
	for name, tt := range fates {
		if tt.lands == hours {
			continue // longer than any write is on its way but a claim
		}
		for _, step := range []sim.Kind{sim.Voidings, sim.Openings} {
			for way, c := range cleanups {
				play(t, way+", "+string(step)+", "+name, c.first(), func(w *world) {
					tried := 0
					counted := sim.On(func(_ task.ID, w *claim.Write) bool {
						if sim.KindOf(w) == step {
							tried++
						}
						return false
					}, nil)
					fault := sim.InTurn(step, tt.fault)
					if way == "put right" && step == sim.Openings {
						fault = sim.InTurn(step, nil, tt.fault) // after the release
					}
					d := w.daemon("a", counted, fault, lateClaim(c.late))
					c.begin(w, d, false, func() {})
					for range 10 {
						w.sync(time.Minute, d)
						if _, swept, err := d.Sweep(w.ctx, page); swept && (err != nil || w.Page(page).Status != task.Open) {
							w.Errorf("swept, error %v, and the page is %s", err, w.Page(page).Status)
						}
					}
					w.shows(task.Open, "", "")
					w.events(d, append(slices.Clone(c.before), c.kind)...)
					switch way {
					case "sweep":
						if got := d.Ledger.Events()[0]; got.Agent != "Ghost" || got.Holder != "Ghost" || got.Claim != ghost || !got.Remote {
							w.Errorf("event %+v, want Ghost's claim swept", got)
						}
					case "withdrawal":
						if w.graced(d); tt.lands != later && tried != map[bool]int{true: 2, false: 1}[tt.lands == never] {
							w.Errorf("%d tries", tried)
						}
					}
					time.Sleep(24 * time.Hour)
					w.sync(time.Minute, d)
					w.none(d)
				})
			}
		}
	}
}

func TestSweepOfAMissingPage(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		_, swept, err := w.daemon("a").Sweep(w.ctx, otherPage)
		if swept || err != nil {
			w.Errorf("swept = %v, error %v; want nothing", swept, err)
		}
	})
}

// A stale claim of this daemon ends when its task is swept.
func TestSweepOfOnesOwn(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt))
		w.sweeps(d, false)
		time.Sleep(time.Second)
		former, swept, err := d.Sweep(w.ctx, page)
		if former != "Sandman" || !swept || err != nil {
			w.Fatalf("swept = %v of %q, error %v", swept, former, err)
		}
		w.ended(d, c, claim.EndSwept)
		w.refused(d, c, claim.EndCompleted)
		w.claim(d, "Oracle")
	})
}

// What an agent has finished is told to Notion before anything is swept.
func TestSweepLeavesAFinish(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.On(firstMinutes(60, sim.Completions), sim.RequestDropped))
		c := w.claim(d, "Sandman")
		w.accepted(d, c, claim.EndCompleted)
		time.Sleep(50 * time.Minute)
		w.sweeps(d, false)
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
		w.renew(d, c)
		time.Sleep(15 * time.Minute)
		if _, swept, err := d.Sweep(w.ctx, otherPage); !swept || err != nil {
			w.Errorf("swept = %v, error %v; want the duplicate swept", swept, err)
		}
		if got := w.record(d, c.ID); got.State != claim.Held {
			w.Errorf("the claim on the original is %s, %s; want it held", got.State, got.Ending)
		}
		if e := w.last(d, claim.KindSwept); e.Claim != "" || e.Agent != "" || e.Holder != "Sandman" || e.Task != otherPage {
			w.Errorf("event %+v, want nobody to be told", e)
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
		w.sent(d, sent, 0)
	})
}

// A mark that lands on the next claim, long after a later sweep did the work, is
// withdrawn, and nothing is swept a second time.
func TestMarkOfAnEarlierSweep(t *testing.T) {
	inWorld(t, staleTask(), func(w *world) {
		d, other := w.daemon("a", sim.InTurn(sim.Voidings, sim.Late(3*time.Minute))), w.daemon("b")
		if _, swept, err := d.Sweep(w.ctx, page); swept || err == nil {
			w.Fatalf("swept = %v, error %v; want the mark on its way", swept, err)
		}
		w.sync(time.Minute, d)
		w.sweeps(d, true)
		w.claim(other, "Oracle")
		w.sync(10*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
		w.events(d, claim.KindSwept, claim.KindWithdrawn)
	})
}

// A sweep of somebody else's stale claim does not end a claim of an agent here,
// which has been lost without its being noticed yet.
func TestSweepOverALostClaim(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		w.Edit(page, func(t *task.Task) { *t = staleTask() })
		w.sweeps(d, true)
		w.lost(d.Guard(w.ctx, c.ID, nil))
		w.ended(d, c, claim.EndLost)
	})
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
			w.sent(d, sent, 0)
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
		w.pageIs(void)
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
		w.due(d)
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
			w.Errorf("due at %v, want the attempt to be watched for as before", due)
		}
	})
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
