package claim_test

import (
	"errors"
	"maps"
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
		play(t, tt.name, openTask(), func(w *world) {
			d := w.daemon("a")
			c := w.claim(d, "Sandman")
			time.Sleep(10 * time.Minute)
			at := d.Store.Now()
			got := w.end(d, c, tt.finish)
			if got.State != claim.Ended || got.Ending != tt.finish.As || !got.Ended.Equal(at) {
				w.Errorf("claim %+v, want it ended as %s at %v", got, tt.finish.As, at)
			}
			w.finished(c, tt.status)
			w.none(d)
			last := latest(d)
			want := claim.Fact{
				ID: last.ID, At: at, Kind: tt.kind, Task: page, Title: c.Task.Title, URL: c.Task.URL, Agent: "Sandman", Claim: c.ID, Fence: c.Fence,
				Remote: true, Started: c.Started, Finished: at, Summary: tt.finish.Summary,
			}
			want.Tried = tries[tt.name]
			if diff := cmp.Diff(want, last); diff != "" {
				w.Errorf("event (-want +got):\n%s", diff)
			}

			// Saying it again changes nothing, and says the same.
			sent := len(d.Store.Calls())
			if diff := cmp.Diff(got, w.end(d, c, tt.finish)); diff != "" {
				w.Errorf("again (-first +second):\n%s", diff)
			}
			w.sent(d, sent, 0)
			w.events(d, claim.KindGranted, tt.kind)
			// Saying something else is refused.
			other := claim.EndBlocked
			if tt.finish.As == other {
				other = claim.EndReleased
			}
			w.refused(d, c, other)
		})
	}
}

// A claim that is over cannot be finished; work that was done is not forgotten.
func TestFinishOfALostClaim(t *testing.T) {
	for _, tt := range finishes {
		play(t, tt.name, openTask(), func(w *world) {
			d := w.daemon("a")
			c := w.claim(d, "Sandman")
			time.Sleep(time.Hour)
			rival := w.claim(w.daemon("b"), "Oracle")

			_, err := d.Finish(w.ctx, c.ID, tt.finish)
			lost := w.lost(err)
			if lost.Holder != "Oracle" || lost.Claim.ID != c.ID {
				w.Errorf("lost %+v, want it to name Oracle", lost)
			}
			w.shows(task.InProgress, "Oracle", string(rival.ID))
			w.counts(d, tt.write, 0)
			want := []claim.Kind{claim.KindGranted, claim.KindLost}
			if tt.finish.As == claim.EndCompleted || tt.finish.As == claim.EndFailed || tt.finish.As == claim.EndReview {
				want = append(want, claim.KindOrphaned)
			}
			w.events(d, want...)
			w.none(d)
			// And again: the same answer, and nothing new.
			_, err = d.Finish(w.ctx, c.ID, tt.finish)
			w.lost(err)
			if n := len(d.Ledger.Events()); n != len(want) {
				w.Errorf("%d events, want %d", n, len(want))
			}
		})
	}
}

// An old claim cannot touch a newer one of the same agent.
func TestFencing(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		old := w.claim(d, "Sandman")
		w.finish(d, old, claim.EndReleased)
		c := w.claim(d, "Sandman")
		for _, as := range []claim.Ending{claim.EndCompleted, claim.EndFailed, claim.EndBlocked} {
			w.refused(d, old, as)
		}
		_, err := d.Renew(w.ctx, old.ID)
		w.lost(err)
		w.ok(d.Guard(w.ctx, old.ID, nil))
		w.shows(task.InProgress, "Sandman", string(c.ID))
		if _, err := d.Finish(w.ctx, claim.NewID(time.Now()), claim.Finish{As: claim.EndReleased}); !errors.Is(err, claim.ErrUnknownClaim) {
			w.Errorf("error %v, want %v", err, claim.ErrUnknownClaim)
		}
	})
}

// While one ending is on its way to Notion, another is refused.
func TestSecondThoughts(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.On(firstMinutes(5, sim.Openings), sim.Fails(503, false)))
		c := w.claim(d, "Sandman")
		w.owes(w.accepted(d, c, claim.EndReleased))
		w.refused(d, c, claim.EndCompleted)
		_, err := d.Renew(w.ctx, c.ID)
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
		w.finish(d, c, claim.EndCompleted)
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
					w.Errorf("the claim is %s, error %v; want it ended", got.State, err)
				}
			})
		}
		wg.Wait()
		w.counts(d, sim.Completions, 1)
		w.events(d, claim.KindGranted, claim.KindCompleted)
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
			w.accepted(d, c, claim.EndCompleted)
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
		play(t, tt.name, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, slow, slow, slow))
			c := w.claim(d, "Sandman")
			tt.do(w, d, c)
			if got := len(w.History(page)); got != tt.want {
				w.Errorf("the page has %d versions, want %d: no write after a slow read", got, tt.want)
			}
		})
	}
	play(t, "withdrawal", openTask(), func(w *world) {
		d := w.daemon("a",
			sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)),
			sim.InTurn(sim.Reads, nil, nil, slow))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.counts(d, sim.Voidings, 0)
		w.sync(3*time.Minute, d)
		w.shows(task.Open, "", "")
	})
}

// Whatever becomes of the write that finishes a claim, it is delivered, the
// agent is not told that the claim is lost, and it is logged once.
func TestFateOfTheFinish(t *testing.T) {
	for _, tt := range finishes {
		for fate, f := range fates {
			for times, fault := range map[string]sim.Fault{
				"first": sim.InTurn(tt.write, f.fault),
				"third": sim.InTurn(tt.write, sim.RequestDropped, sim.RequestDropped, f.fault),
				"every": sim.On(firstMinutes(10, tt.write), f.fault),
			} {
				play(t, tt.name+", "+fate+", "+times, openTask(), func(w *world) {
					d := w.daemon("a", fault)
					c := w.claim(d, "Sandman")
					got := w.end(d, c, tt.finish)
					if got.State != claim.Ended && got.State != claim.Finishing {
						w.Errorf("the claim is %s, want it ended or finishing", got.State)
					}
					w.sync(15*time.Minute, d)

					// The agent asks again, having heard nothing.
					got = w.end(d, c, tt.finish)
					if got.State != claim.Ended || got.Ending != tt.finish.As {
						w.Errorf("the claim is %s, %s; want it ended as %s", got.State, got.Ending, tt.finish.As)
					}
					w.finished(c, tt.status)
					w.events(d, claim.KindGranted, tt.kind)
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
		got := w.accepted(a, c, claim.EndReleased)
		if got.Ending != claim.EndReleased {
			w.Errorf("ended as %s, want released", got.Ending)
		}
		wg.Wait()
		if len(granted) != 1 {
			w.Fatalf("%d claims were granted, want Oracle's", len(granted))
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
		w.owes(w.end(a, c, claim.Finish{As: claim.EndFailed, Reopen: true, Summary: "no ladder"}))
		w.sync(2*time.Minute, a, b)
		w.ended(a, c, claim.EndLost)
		w.events(a, claim.KindGranted, claim.KindLost, claim.KindOrphaned)
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
		got := w.accepted(d, c, claim.EndCompleted)
		if got.Ending != claim.EndCompleted {
			w.Errorf("ended as %s, want completed", got.Ending)
		}
		// It is open to all again, although its last claim is still to be seen.
		w.claim(d, "Oracle")
	})
}

// With Notion down, a finish is accepted, journalled and delivered later, once, by the next daemon, too. So is one
// whose daemon dies after the write, before it could note that, and one that landed late and that the agent repeats.
func TestFinishIsDeliveredLater(t *testing.T) {
	for _, tt := range finishes {
		for name, restart := range map[string]bool{"": false, ", with a restart": true} {
			play(t, tt.name+", Notion is down"+name, openTask(), func(w *world) {
				var down bool
				d := w.daemon("a", sim.On(func(_ task.ID, w *claim.Write) bool { return down && w == nil }, sim.ReadFails(claim.Unavailable)))
				c := w.claim(d, "Sandman")
				down = true
				got := w.end(d, c, tt.finish)
				w.owes(got)
				w.deny(d, "Oracle", claim.CodeHeld)
				if restart {
					w.ok(d.Restart(w.ctx))
				}
				w.sync(20*time.Minute, d)
				w.owes(w.only(d))
				down = false
				w.sync(6*time.Minute, d)
				w.none(d)
				w.finished(c, tt.status)
				w.counts(d, tt.write, 1)
				if e := w.last(d, tt.kind); !e.Finished.Equal(got.Finish.At) || e.Summary != tt.finish.Summary {
					w.Errorf("%+v, want it finished at %v", e, got.Finish.At)
				}
				if note := w.Page(page).Note; !strings.HasSuffix(note, "2000-01-01 00:00 UTC") { // when the agent said so
					w.Errorf("note %q", note)
				}
				if n := len(slices.DeleteFunc(kinds(d), func(k claim.Kind) bool { return k != tt.kind })); n != 1 {
					w.Errorf("%d events say that it was %s", n, tt.kind)
				}
			})
		}
		play(t, tt.name+", and the daemon dies", openTask(), func(w *world) {
			d := w.start(steady("a"))
			c := w.claim(d, "Sandman")
			crash := errors.New("crash")
			time.AfterFunc(350*time.Millisecond, func() { d.Ledger.Break(crash) })
			if _, err := d.Finish(w.ctx, c.ID, tt.finish); !errors.Is(err, crash) {
				w.Fatalf("error %v, want %v", err, crash)
			}
			d.Ledger.Break(nil)
			w.ok(d.Restart(w.ctx))
			w.sync(time.Minute, d)
			w.none(d)
			w.finished(c, tt.status)
			w.events(d, claim.KindGranted, tt.kind)
		})
		play(t, tt.name+", and it lands late", openTask(), func(w *world) {
			late := sim.Late(time.Minute)
			d := w.daemon("a", sim.InTurn(tt.write, late, late, late))
			c := w.claim(d, "Sandman")
			got := w.end(d, c, tt.finish)
			w.owes(got)
			time.Sleep(2 * time.Minute)
			got = w.end(d, c, tt.finish)
			if got.State != claim.Ended || got.Ending != tt.finish.As || !got.Due.IsZero() {
				w.Errorf("the claim is %s, %s, due at %v; want it ended as %s", got.State, got.Ending, got.Due, tt.finish.As)
			}
			w.finished(c, tt.status)
		})
	}
}

// edits are a person's edits, and whether a page still shows them.
var edits = map[string]struct {
	do   func(*task.Task)
	kept func(task.Task) bool
}{
	"cancelled": {status(task.Cancelled), func(t task.Task) bool { return t.Status == task.Cancelled }},
	"opened":    {status(task.Open), func(t task.Task) bool { return t.Status == task.Open }},
	"taken":     {func(t *task.Task) { t.ClaimedBy, t.ClaimedAt = "Anna", time.Now() }, func(t task.Task) bool { return t.ClaimedBy == "Anna" }},
	"noted":     {func(t *task.Task) { t.Note = "ask Anna first" }, func(t task.Task) bool { return strings.Contains(t.Note, "ask Anna first") }},
	"lease":     {func(t *task.Task) { t.Timeout = 45 * time.Minute }, func(t task.Task) bool { return t.Timeout == 45*time.Minute }},
	"title":     {func(t *task.Task) { t.Title = "another" }, func(t task.Task) bool { return t.Title == "another" }},
	"trashed":   {func(t *task.Task) { t.Trashed = true }, func(t task.Task) bool { return t.Trashed }},
}

// An edit survives a finish, and a sweep, if it lands before the read on which a write depends, or after that write.
// Each edit comes at each moment, around the finishes in turn.
func TestEditsAroundAWrite(t *testing.T) {
	inside, lost := 0, 0
	for way, tt := range map[string]struct {
		fault sim.Fault // for the first write
		after time.Duration
	}{
		"at once": {}, "answer lost": {fault: sim.AnswerDropped}, "saved, and 503": {fault: sim.SavedBut503}, "write lost": {fault: sim.RequestDropped},
		"lease over": {after: 32 * time.Minute}, "sweep": {after: 2 * time.Hour},
	} {
		n := 0
		for _, what := range slices.Sorted(maps.Keys(edits)) {
			edit := edits[what]
			for at := 50 * time.Millisecond; at < 6*time.Second; at += 200 * time.Millisecond { // half-way between all requests
				finish := finishes[n%len(finishes)]
				n++
				if finish.status == task.Open && what == "opened" || way == "sweep" && (what == "opened" || what == "lease") {
					continue // the same with and without the edit, or no stale claim any more
				}
				inWorld(t, openTask(), func(w *world) {
					d := w.start(steady("a"), sim.InTurn(finish.write, tt.fault))
					c := w.claim(d, "Sandman")
					time.Sleep(tt.after)
					began, sent := time.Now(), len(d.Store.Calls())
					time.AfterFunc(at, func() { w.Edit(page, edit.do) })
					if way == "sweep" {
						_, _, _ = d.Sweep(w.ctx, page)
					} else {
						_, _ = d.Finish(w.ctx, c.ID, finish.finish)
					}
					time.Sleep(10 * time.Second)
					w.sync(time.Minute, d)
					between, read := false, time.Time{}
					for i, call := range d.Store.Calls()[sent:] {
						effect := call.Sent.Add(100 * time.Millisecond)
						switch landed := began.Add(at); {
						case call.Write == nil:
							read = effect
						case i < 2 && way == "write lost":
						default:
							between = between || landed.After(read) && landed.Before(effect)
						}
					}
					kept := edit.kept(w.Page(page))
					if between {
						if inside++; !kept {
							lost++
						}
					} else if !kept {
						w.Errorf("%s, %s: %s after %v, was lost", way, finish.name, what, at)
					}
				})
			}
		}
	}
	if t.Logf("%d edits inside of the window, of which %d were overwritten", inside, lost); lost == 0 {
		t.Error("no edit was overwritten inside of the window: the test does not see what it looks for")
	}
}

// freeings are the ways in which a daemon frees a task.
var freeings = map[string]struct {
	first func(*task.Task)
	do    func(w *world, d *sim.Daemon)
}{
	"a release": {do: func(w *world, d *sim.Daemon) {
		w.accepted(d, w.claim(d, "Sandman"), claim.EndReleased)
	}},
	"a release near the end of the lease": {do: func(w *world, d *sim.Daemon) {
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt.Add(-20 * time.Second)))
		w.accepted(d, c, claim.EndReleased)
	}},
	"a failure": {do: func(w *world, d *sim.Daemon) {
		w.end(d, w.claim(d, "Sandman"), claim.Finish{As: claim.EndFailed, Reopen: true})
	}},
	"a sweep": {
		first: func(t *task.Task) { *t = staleTask() },
		do:    func(w *world, d *sim.Daemon) { _, _, _ = d.Sweep(w.ctx, page) },
	},
	"a withdrawal": {do: func(w *world, d *sim.Daemon) {
		now := time.Now() // an attempt that was cut short
		h := claim.Hold{ID: claim.NewID(now), Agent: "Sandman", Task: openTask(), State: claim.Writing, Reserved: now, Lease: claim.Lease{ClaimedAt: now}}
		_, _, err := d.Ledger.Reserve(w.ctx, h, now, 0)
		w.ok(err)
		w.Edit(page, func(t *task.Task) {
			t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, h.Agent, now, string(h.ID)
		})
		w.ok(d.Restart(w.ctx))
	}},
	"a tidying": {do: func(w *world, d *sim.Daemon) {
		c := w.claim(d, "Sandman")
		was := w.Page(page)
		w.accepted(d, c, claim.EndCompleted)
		w.Edit(page, func(t *task.Task) { *t = was })
	}},
	"a gesture": {do: func(w *world, d *sim.Daemon) {
		w.claim(d, "Sandman")
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
	}},
	"a reopening": {
		first: func(t *task.Task) { t.Status = task.Blocked },
		do:    func(w *world, d *sim.Daemon) { _, _ = w.reopen(d) },
	},
	"a reopening beside an old token": {
		first: func(t *task.Task) {
			t.Status, t.Token = task.Blocked, "done "+string(claim.NewID(time.Now().Add(-time.Hour)))+" Sandman"
		},
		do: func(w *world, d *sim.Daemon) { _, _ = w.reopen(d) },
	},
	"a reopening of a name": {
		first: func(t *task.Task) { *t = staleTask(); t.Status = task.Blocked },
		do:    func(w *world, d *sim.Daemon) { _, _ = w.reopen(d) },
	},
}

// freed frees a task, with a fate of the write that does, and returns who was granted it next, and
// when: by a daemon that is restarted at once, if again is set.
func freed(w *world, way string, again bool, fate sim.Fault) (next claim.Hold, after time.Duration) {
	d := w.daemon("a", sim.InTurn(sim.Openings, fate))
	began := time.Now()
	freeings[way].do(w, d)
	if again {
		w.ok(d.Restart(w.ctx))
	}
	for i := 0; time.Since(began) < 35*time.Minute; i++ {
		if _, err := d.RunDue(w.ctx); err != nil {
			w.Logf("%s: %v", way, err)
		}
		if i%15 == 1 {
			_ = d.Sync(w.ctx)
		}
		if c, err := d.Claim(w.ctx, request("Oracle")); err == nil {
			return c, time.Since(began)
		}
		if w.Page(page).Status == task.Blocked && i > 0 && i%30 == 0 {
			_, _ = w.reopen(d) // as its caller was told to
		}
		time.Sleep(time.Second)
	}
	w.Fatal("nobody is granted the task any more")
	return claim.Hold{}, 0
}

// A write that frees a task and was never answered may land a minute later. By then it has not
// freed the task under the next holder, whoever restarted meanwhile.
func TestFreeingWriteLandsLate(t *testing.T) {
	for way, f := range freeings {
		t.Run(way, func(t *testing.T) {
			first := openTask()
			if f.first != nil {
				f.first(&first)
			}
			for _, late := range []time.Duration{4 * time.Second, 20 * time.Second, time.Minute} {
				for _, again := range []bool{false, true} {
					inWorld(t, first, func(w *world) {
						c, after := freed(w, way, again, sim.Late(late))
						for range 75 {
							if p := w.Page(page); p.Token != string(c.ID) || p.ClaimedBy != c.Agent || p.Status != task.InProgress {
								w.Fatalf("landing after %v, restarted %v: granted after %v, and then the page shows %s, %q, token %q", late, again, after, p.Status, p.ClaimedBy, p.Token)
							}
							time.Sleep(time.Second)
						}
					})
				}
			}
		})
	}
}

// A write that was answered, shows on the page or was surely not sent delays nobody.
func TestFreeingWriteDelaysNobody(t *testing.T) {
	for way, f := range freeings {
		first := openTask()
		if f.first != nil {
			f.first(&first)
		}
		var usual time.Duration
		for _, tt := range []struct {
			name string
			fate sim.Fault
		}{{"answered", nil}, {"landed", sim.AnswerDropped}, {"turned away", sim.TurnedAway(429, time.Second)}} {
			inWorld(t, first, func(w *world) {
				_, after := freed(w, way, false, tt.fate)
				if usual == 0 {
					usual = after
				}
				if after > usual+45*time.Second {
					w.Errorf("%s, %s: granted again after %v, and otherwise after %v", way, tt.name, after, usual)
				}
			})
		}
	}
}
