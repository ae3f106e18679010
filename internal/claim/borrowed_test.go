package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// own is the lease length that a person gave the task in these tests.
const own = 45 * time.Minute

// longer has the agent claim the task for two hours.
func (w *world) longer(d *claimsim.Daemon, agent string) claim.Hold {
	w.Helper()
	r := request(agent)
	r.Timeout = 2 * time.Hour
	c, err := d.Claim(w.ctx, r)
	w.ok(err)
	if got := w.Page(page).Timeout; got != 2*time.Hour {
		w.Fatalf("the lease on the page is %v", got)
	}
	return c
}

// leases checks the lease length on the page.
func (w *world) leases(want time.Duration) {
	w.Helper()
	if got := w.Page(page).Timeout; got != want {
		w.Errorf("the page has a lease length of %v, want %v", got, want)
	}
}

func personsTask() task.Task {
	t := openTask()
	t.Timeout = own
	return t
}

// A lease that an agent asked for does not outlive its claim, whatever a person does to it.
func TestLeaseLengthAfterAPersonsEdit(t *testing.T) {
	for name, edit := range map[string]func(*task.Task){
		"cleared":       func(t *task.Task) { unclaim(t); t.Status = task.Open },
		"opened":        func(t *task.Task) { t.Status = task.Open },
		"cancelled":     func(t *task.Task) { t.Status = task.Cancelled },
		"completed":     func(t *task.Task) { t.Status = task.Completed },
		"another name":  func(t *task.Task) { t.ClaimedBy = "Maria" },
		"all but OPEN":  func(t *task.Task) { t.ClaimedBy, t.Token, t.Status = "", "", task.Open },
		"then claimed":  func(t *task.Task) { unclaim(t); t.Status = task.Open },
		"also to 3 hrs": func(t *task.Task) { unclaim(t); t.Status, t.Timeout = task.Open, 3*time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, personsTask(), func(w *world) {
				d := w.daemon("a")
				w.longer(d, "Sandman")
				w.Edit(page, edit)
				want := own
				switch name {
				case "also to 3 hrs":
					want = 3 * time.Hour // a person's word
				case "then claimed":
					w.lost(d.Guard(w.ctx, w.only(d).ID, nil))
					w.claim(d, "Oracle")
					w.leases(own)
				}
				edited := w.Page(page)
				w.sync(time.Minute, d)
				w.leases(want)
				if got := w.Page(page); got.Status != edited.Status {
					t.Errorf("the status became %s", got.Status)
				}
				time.Sleep(25 * time.Hour)
				w.sync(time.Minute, d)
			})
		})
	}
}

// It goes on to whoever overrides it only as long as that claim lasts.
func TestLeaseLengthAfterAnOverride(t *testing.T) {
	for _, same := range []bool{true, false} {
		for _, asks := range []bool{true, false} {
			for _, end := range []claim.Ending{claim.EndReleased, claim.EndFailed} {
				inWorld(t, personsTask(), func(w *world) {
					d := w.daemon("a")
					other := d
					if !same {
						other = w.daemon("b")
					}
					stale := w.longer(d, "Sandman")
					time.Sleep(time.Until(stale.StaleAt.Add(time.Second)))
					var c claim.Hold
					if asks {
						c = w.longer(other, "Oracle")
					} else {
						c = w.claim(other, "Oracle")
					}
					if same && !asks {
						w.leases(own)
					}
					w.sync(time.Minute, d, other)
					_, err := other.Finish(w.ctx, c.ID, claim.Finish{As: end, Reopen: true})
					w.ok(err)
					w.sync(time.Minute, d, other)
					w.leases(own)
					w.shows(task.Open, "", "")
				})
			}
		}
	}
}

// A sweep by another daemon leaves the lease on the task; the one that knows puts it back.
func TestLeaseLengthAfterASweepElsewhere(t *testing.T) {
	inWorld(t, personsTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		stale := w.longer(d, "Sandman")
		time.Sleep(time.Until(stale.StaleAt.Add(time.Second)))
		if _, swept, err := other.Sweep(w.ctx, page); !swept || err != nil {
			t.Fatalf("swept = %v, %v", swept, err)
		}
		w.sync(time.Minute, d, other)
		w.leases(own)
		w.shows(task.Open, "", "")
	})
}

// As long as somebody has the task, its lease is left alone: it is what that claim counts on.
func TestLeaseLengthUnderALiveClaim(t *testing.T) {
	inWorld(t, personsTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		w.longer(d, "Sandman")
		w.Edit(page, func(t *task.Task) { unclaim(t); t.Status = task.Open })
		c := w.claim(other, "Oracle")
		w.sync(10*time.Minute, d, other)
		w.leases(2 * time.Hour)
		// What the mirror shows is a hint, and no more.
		want := w.Page(page)
		w.ok(d.Repay(w.ctx, func(task.ID) (task.Task, bool) {
			free := want
			unclaim(&free)
			free.Status = task.Open
			return free, true
		}))
		if diff := cmp.Diff(want, w.Page(page)); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
		if got := w.record(other, c.ID); got.Timeout != 2*time.Hour || got.State != claim.Held {
			t.Errorf("the claim is %s, for %v", got.State, got.Timeout)
		}
	})
}

// Whatever becomes of the writes, the lease is put back, and the task is free.
func TestFateOfTheLeaseLength(t *testing.T) {
	for _, step := range []claimsim.Kind{claimsim.Voidings, claimsim.Openings} {
		for name, f := range map[string]claimsim.Fault{
			"answer dropped": claimsim.AnswerDropped, "request dropped": claimsim.RequestDropped, "turned away": claimsim.TurnedAway(429, time.Second),
			"late": claimsim.Late(8 * time.Second), "not applied": claimsim.NotApplied, "refused": claimsim.WriteRefused,
		} {
			t.Run(string(step)+", "+name, func(t *testing.T) {
				inWorld(t, personsTask(), func(w *world) {
					d := w.daemon("a", claimsim.InTurn(step, f))
					w.longer(d, "Sandman")
					w.Edit(page, func(t *task.Task) { unclaim(t); t.Status = task.Open })
					w.sync(5*time.Minute, d)
					w.ok(d.Restart(w.ctx))
					w.sync(5*time.Minute, d)
					w.leases(own)
					w.shows(task.Open, "", "")
					time.Sleep(24 * time.Hour)
					w.sync(time.Minute, d)
					w.none(d)
				})
			})
		}
	}
}
