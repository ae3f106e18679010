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

// finishes lists what an agent can say when it is done.
var finishes = []struct {
	name   string
	finish claim.Finish
	kind   claim.Kind
	status task.Status // of the page, afterwards
	write  sim.Kind
}{
	{"completed", claim.Finish{As: claim.EndCompleted, Summary: "mended"}, claim.KindCompleted, task.Completed, sim.Completions},
	{"failed", claim.Finish{As: claim.EndFailed, Summary: "no ladder"}, claim.KindFailed, task.Blocked, sim.Blockings},
	{"failed, to be tried again", claim.Finish{As: claim.EndFailed, Reopen: true}, claim.KindFailed, task.Open, sim.Openings},
	{"blocked", claim.Finish{As: claim.EndBlocked, Summary: "rain"}, claim.KindBlocked, task.Blocked, sim.Blockings},
	{"review", claim.Finish{As: claim.EndReview, Summary: "mended, look at the ridge"}, claim.KindReview, task.Review, sim.Reviews},
	{"released", claim.Finish{As: claim.EndReleased}, claim.KindReleased, task.Open, sim.Openings},
}

// tries is what the finishes mean for the tries at their task.
var tries = map[string]claim.Tried{
	"completed": claim.TriedOver, "review": claim.TriedOver, "failed": claim.TriedOver, "blocked": claim.TriedOver,
	"failed, to be tried again": claim.TriedAgain,
}

// finished checks what the page shows after c ended in the given status.
func (w *world) finished(c claim.Hold, status task.Status) {
	w.Helper()
	if status == task.Completed || status == task.Review {
		w.shows(status, c.Agent, "done "+string(c.ID)+" "+c.Agent) // who did it stays to be seen
		return
	}
	w.shows(status, "", "")
	if at := w.Page(page).ClaimedAt; !at.IsZero() {
		w.Errorf("the page is claimed at %v, want no date", at)
	}
}

func TestFinish(t *testing.T) {
	for _, tt := range finishes {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := w.claim(d, "Sandman")
				time.Sleep(10 * time.Minute)
				at := d.Store.Now()
				got, err := d.Finish(w.ctx, c.ID, tt.finish)
				w.ok(err)
				if got.State != claim.Ended || got.Ending != tt.finish.As || !got.Ended.Equal(at) {
					t.Errorf("claim %+v, want it ended as %s at %v", got, tt.finish.As, at)
				}
				w.finished(c, tt.status)
				w.none(d)
				events := d.Ledger.Events()
				last := events[len(events)-1]
				want := claim.Fact{
					ID: last.ID, At: at, Kind: tt.kind, Task: page, Title: c.Task.Title, URL: c.Task.URL, Agent: "Sandman", Claim: c.ID, Fence: c.Fence,
					Remote: true, Started: c.Started, Finished: at, Summary: tt.finish.Summary,
				}
				want.Tried = tries[tt.name]
				if diff := cmp.Diff(want, last); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}

				// Saying it again changes nothing, and says the same.
				sent := len(d.Store.Calls())
				again, err := d.Finish(w.ctx, c.ID, tt.finish)
				w.ok(err)
				if diff := cmp.Diff(got, again); diff != "" {
					t.Errorf("again (-first +second):\n%s", diff)
				}
				if n := len(d.Store.Calls()); n != sent {
					t.Errorf("saying it again took %d requests", n-sent)
				}
				if got := len(d.Ledger.Events()); got != len(events) {
					t.Errorf("saying it again made %d events", got-len(events))
				}
				// Saying something else is refused.
				other := claim.EndBlocked
				if tt.finish.As == other {
					other = claim.EndReleased
				}
				_, err = d.Finish(w.ctx, c.ID, claim.Finish{As: other})
				w.lost(err)
			})
		})
	}
}

// A claim that is over cannot be finished; work that was done is not forgotten.
func TestFinishOfALostClaim(t *testing.T) {
	for _, tt := range finishes {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := w.claim(d, "Sandman")
				time.Sleep(time.Hour)
				rival := w.claim(w.daemon("b"), "Oracle")

				_, err := d.Finish(w.ctx, c.ID, tt.finish)
				lost := w.lost(err)
				if lost.Holder != "Oracle" || lost.Claim.ID != c.ID {
					t.Errorf("lost %+v, want it to name Oracle", lost)
				}
				w.shows(task.InProgress, "Oracle", string(rival.ID))
				if n := count(d, tt.write); n != 0 {
					t.Errorf("%d writes, want none", n)
				}
				want := []claim.Kind{claim.KindGranted, claim.KindLost}
				if tt.finish.As == claim.EndCompleted || tt.finish.As == claim.EndFailed || tt.finish.As == claim.EndReview {
					want = append(want, claim.KindOrphaned)
				}
				if diff := cmp.Diff(want, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				w.none(d)
				// And again: the same answer, and nothing new.
				_, err = d.Finish(w.ctx, c.ID, tt.finish)
				w.lost(err)
				if n := len(d.Ledger.Events()); n != len(want) {
					t.Errorf("%d events, want %d", n, len(want))
				}
			})
		})
	}
}

// An old claim cannot touch a newer one of the same agent.
func TestFencing(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		old := w.claim(d, "Sandman")
		_, err := d.Finish(w.ctx, old.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
		c := w.claim(d, "Sandman")
		for _, as := range []claim.Ending{claim.EndCompleted, claim.EndFailed, claim.EndBlocked} {
			_, err := d.Finish(w.ctx, old.ID, claim.Finish{As: as})
			w.lost(err)
		}
		_, err = d.Renew(w.ctx, old.ID)
		w.lost(err)
		w.ok(d.Guard(w.ctx, old.ID, nil))
		w.shows(task.InProgress, "Sandman", string(c.ID))
		if _, err := d.Finish(w.ctx, claim.NewID(time.Now()), claim.Finish{As: claim.EndReleased}); !errors.Is(err, claim.ErrUnknownClaim) {
			t.Errorf("error %v, want %v", err, claim.ErrUnknownClaim)
		}
	})
}

// While one ending is on its way to Notion, another is refused.
func TestSecondThoughts(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.On(firstMinutes(5, sim.Openings), sim.Fails(503, false)))
		c := w.claim(d, "Sandman")
		got, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased})
		w.ok(err)
		if got.State != claim.Finishing {
			t.Fatalf("the claim is %s, want finishing", got.State)
		}
		_, err = d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.lost(err)
		_, err = d.Renew(w.ctx, c.ID)
		w.lost(err)
		w.sync(15*time.Minute, d)
		w.finished(c, task.Open)
		w.none(d)
	})
}

// A claim past its lease that nobody took is still its agent's to finish.
func TestFinishAfterTheLease(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		time.Sleep(3 * time.Hour)
		_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.ok(err)
		w.finished(c, task.Completed)
	})
}

// Two calls that finish one claim at the same time are one.
func TestFinishTwiceAtOnce(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		c := w.claim(d, "Sandman")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				got, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
				if err != nil || got.State != claim.Ended {
					t.Errorf("the claim is %s, error %v; want it ended", got.State, err)
				}
			})
		}
		wg.Wait()
		if n := count(d, sim.Completions); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindCompleted}, kinds(d)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A write follows its read within the window, or not at all.
func TestSlowReadsBeforeOtherWrites(t *testing.T) {
	slow := sim.SlowRead(2 * time.Second)
	tests := []struct {
		name string
		do   func(w *world, d *sim.Daemon, c claim.Hold)
		want int // versions of the page, in the end
	}{
		{"finish", func(w *world, d *sim.Daemon, c claim.Hold) {
			_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
			w.ok(err)
		}, 2},
		{"renewal", func(w *world, d *sim.Daemon, c claim.Hold) {
			time.Sleep(20 * time.Minute)
			_, err := d.Renew(w.ctx, c.ID)
			_, ok := errors.AsType[*claim.StoreError](err)
			if !ok {
				w.Errorf("error %v, want a *claim.StoreError", err)
			}
		}, 2},
		{"sweep", func(w *world, d *sim.Daemon, c claim.Hold) {
			time.Sleep(time.Hour)
			_, swept, err := d.Sweep(w.ctx, page)
			w.ok(err)
			if swept {
				w.Error("swept")
			}
		}, 2},
		{"repair", func(w *world, d *sim.Daemon, c claim.Hold) {
			w.Edit(page, func(t *task.Task) { t.ClaimedBy, t.Token = "Oracle", "void "+string(claim.NewID(time.Now())) })
			w.ok(d.Guard(w.ctx, c.ID, nil))
		}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, slow, slow, slow))
				c := w.claim(d, "Sandman")
				tt.do(w, d, c)
				if got := len(w.History(page)); got != tt.want {
					t.Errorf("the page has %d versions, want %d: no write after a slow read", got, tt.want)
				}
			})
		})
	}
	t.Run("withdrawal", func(t *testing.T) {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a",
				sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)),
				sim.InTurn(sim.Reads, nil, nil, slow))
			w.deny(d, "Sandman", claim.CodeNotionUnavailable)
			if n := count(d, sim.Voidings); n != 0 {
				t.Errorf("%d writes after a slow read, want none", n)
			}
			w.sync(3*time.Minute, d)
			w.shows(task.Open, "", "")
		})
	})
}
