package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// reopen has Oracle reopen the page in whatever status it is.
func (w *world) reopen(d *sim.Daemon) (task.Status, error) {
	w.Helper()
	return w.reopenSeen(d, w.Page(page).Status)
}

// reopenSeen has Oracle reopen the page, which it saw in that status, with the name that is on it.
func (w *world) reopenSeen(d *sim.Daemon, seen task.Status) (task.Status, error) {
	w.Helper()
	t, was, err := d.Reopen(w.ctx, claim.Reopening{Task: task.Task{ID: page}, Agent: "Oracle", Note: "look again", Was: seen, Holder: w.Page(page).ClaimedBy})
	if err == nil && (t.ID != page || t.Status != task.Open) {
		w.Errorf("the task is %+v, want it open", t)
	}
	return was, err
}

func blockedTask() task.Task {
	t := openTask()
	t.Status = task.Blocked
	return t
}

func TestReopen(t *testing.T) {
	const line = "Reopened: look again — Oracle, 2000-01-01 00:00 UTC"
	claimed := func(status task.Status, at time.Time, token string) task.Task {
		t := openTask()
		t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = status, "Ghost", at, token
		return t
	}
	live := bubbleStart.Add(-10 * time.Minute)
	stale := bubbleStart.Add(-2 * time.Hour)
	for _, tt := range []struct {
		name string
		page task.Task
		code claim.Code // of the refusal
		done bool       // whether there was nothing to be done
	}{
		{name: "blocked", page: task.Task{Status: task.Blocked}},
		{name: "failed", page: task.Task{Status: task.Failed}},
		{name: "cancelled", page: task.Task{Status: task.Cancelled}},
		{name: "in review", page: claimed(task.Review, live, "done "+string(ghost)+" Ghost")},
		{name: "completed", page: claimed(task.Completed, live, "done "+string(ghost)+" Ghost")},
		{name: "blocked under a stale claim", page: claimed(task.Blocked, stale, string(ghost))},
		{name: "blocked under a live claim", page: claimed(task.Blocked, live, string(ghost)), code: claim.CodeHeld},
		{name: "completed by a person under a live claim", page: claimed(task.Completed, live, string(ghost)), code: claim.CodeHeld},
		{name: "blocked under a live claim of a person's", page: claimed(task.Blocked, live, ""), code: claim.CodeHeld},
		{name: "cancelled under a claim whose date was cleared", page: claimed(task.Cancelled, time.Time{}, string(ghost)), code: claim.CodeNotOpen},
		{name: "cancelled under a live claim whose name was cleared", page: task.Task{Status: task.Cancelled, ClaimedAt: live, Token: string(ghost)}, code: claim.CodeNotOpen},
		{name: "cancelled, its name cleared after a claim that is over", page: task.Task{Status: task.Cancelled, ClaimedAt: stale, Token: string(ghost)}},
		{name: "blocked with a name", page: claimed(task.Blocked, time.Time{}, "")},
		{name: "in progress with nobody's name", page: task.Task{Status: task.InProgress}},
		{name: "made here, and in progress with nobody's name", page: task.Task{Status: task.InProgress, Token: "new " + string(ghost)}},
		{name: "in progress, its name cleared after a claim that is over", page: task.Task{Status: task.InProgress, ClaimedAt: stale, Token: string(ghost)}},
		{name: "in progress, its name cleared during a claim", page: task.Task{Status: task.InProgress, ClaimedAt: live, Token: string(ghost)}, code: claim.CodeNotOpen},
		{name: "held", page: claimed(task.InProgress, live, string(ghost)), code: claim.CodeHeld},
		{name: "held, without a date", page: claimed(task.InProgress, time.Time{}, string(ghost)), code: claim.CodeReserved},
		{name: "stale", page: claimed(task.InProgress, stale, string(ghost)), code: claim.CodeNotOpen},
		{name: "being withdrawn", page: task.Task{Status: task.InProgress, Token: "void " + string(ghost)}, code: claim.CodeNotOpen},
		{name: "assigned", page: claimed(task.InProgress, time.Time{}, ""), code: claim.CodeReserved},
		{name: "of an unknown status", page: task.Task{Status: task.Unknown}, code: claim.CodeNotOpen},
		{name: "trashed", page: task.Task{Status: task.Blocked, Trashed: true}, code: claim.CodeNotOpen},
		{name: "open", page: task.Task{Status: task.Open}, done: true},
		{name: "open, and assigned", page: claimed(task.Open, time.Time{}, ""), done: true},
		{name: "open under a live claim", page: claimed(task.Open, live, string(ghost)), code: claim.CodeHeld},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := tt.page
			first.ID, first.Title, first.Note = page, "Mend the roof", "Bring a ladder"
			inWorld(t, first, func(w *world) {
				d := w.daemon("a")
				want := w.Page(page)
				was, err := w.reopen(d)
				var events []claim.Kind
				sent := []sim.Kind{sim.Reads}
				switch {
				case tt.code != "":
					if denied := w.denied(err); denied.Code != tt.code {
						t.Errorf("refused as %s (%v), want %s", denied.Code, err, tt.code)
					}
				case tt.done:
					w.ok(err)
				default:
					w.ok(err)
					want.Status, want.Note = task.Open, "Bring a ladder\n"+line
					if first.ClaimedBy != "" { // else what is left is nobody's claim, and stays
						unclaim(&want)
					}
					events, sent = []claim.Kind{claim.KindReopened}, append(sent, sim.Openings)
					if first.ClaimedBy != "" { // which is taken off first
						sent = []sim.Kind{sim.Reads, sim.Voidings, sim.Reads, sim.Openings, sim.Reads, sim.Openings}
						events = []claim.Kind{claim.KindCleared, claim.KindReopened}
					}
				}
				if err == nil && was != first.Status {
					t.Errorf("it was %s, want %s", was, first.Status)
				}
				same(t, "page", want, w.Page(page))
				same(t, "events", events, kinds(d))
				if got := requests(d); !slices.Equal(got, sent) {
					t.Errorf("requests: %v, want %v", got, sent)
				}
			})
		})
	}
}

// A claim that is held here is never reopened under its agent, also where Notion has yet to
// be told how it ended; one that a person ended is known to be over first.
func TestReopenOfAClaimHeldHere(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		away := false
		d := w.daemon("a", sim.Outage(func() bool { return away }))
		c := w.claim(d, "Sandman")
		if _, err := w.reopen(d); w.denied(err).Code != claim.CodeHeld || w.denied(err).Holder != "Sandman" {
			t.Errorf("reopening a held task: %v", err)
		}
		w.shows(task.InProgress, "Sandman", string(c.ID))

		w.Edit(page, func(t *task.Task) { t.Status = task.Blocked })
		was, err := w.reopen(d)
		w.ok(err)
		if was != task.Blocked {
			t.Errorf("it was %s, want BLOCKED", was)
		}
		if got := w.record(d, c.ID); got.Ending != claim.EndLost {
			t.Errorf("Sandman's claim is %s, %s; want it lost", got.State, got.Ending)
		}
		w.shows(task.Open, "", "")

		c = w.claim(d, "Sandman")
		away = true
		got, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndBlocked})
		w.ok(err)
		if got.State != claim.Finishing {
			t.Fatalf("the claim is %s, want finishing", got.State)
		}
		if _, err := w.reopen(d); w.denied(err).Code != claim.CodeNotionUnavailable {
			t.Errorf("reopening while Notion is away: %v", err)
		}
		away = false
		if _, err := w.reopen(d); w.denied(err).Code != claim.CodeHeld {
			t.Errorf("reopening what Notion has yet to be told of: %v", err)
		}
		w.sync(10*time.Minute, d)
		w.shows(task.Blocked, "", "")
		w.ok(errOf(w.reopen(d)))
		w.claim(d, "Oracle")
	})
}

// A card on which a person ended a claim, or took a part of it off, can be reopened as soon as the
// daemon that had it knows: no other daemon can be sure that the agent is told.
func TestReopenOfACardWithAPartOfAClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*task.Task)
		other claim.Code // the refusal of another daemon
	}{
		"blocked":                {func(t *task.Task) { t.Status = task.Blocked }, claim.CodeHeld},
		"no name":                {func(t *task.Task) { t.ClaimedBy = "" }, claim.CodeNotOpen},
		"no name, cancelled":     {func(t *task.Task) { t.ClaimedBy, t.Status = "", task.Cancelled }, claim.CodeNotOpen},
		"no date, cancelled":     {func(t *task.Task) { t.ClaimedAt, t.Status = time.Time{}, task.Cancelled }, claim.CodeNotOpen},
		"neither, and cancelled": {func(t *task.Task) { t.ClaimedBy, t.ClaimedAt, t.Status = "", time.Time{}, task.Cancelled }, claim.CodeNotOpen},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				ours, other := w.daemon("ours"), w.daemon("other")
				w.claim(ours, "Sandman")
				w.Edit(page, tt.edit)
				if _, err := w.reopen(other); w.denied(err).Code != tt.other {
					t.Errorf("reopening under a claim of another daemon: %v", err)
				}
				w.ok(errOf(w.reopen(ours)))
				w.claim(other, "Oracle")
			})
		})
	}
}

// Whatever becomes of the write that reopens a task, it is reopened once it is said to be.
func TestReopenUnderFaults(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"answer dropped": sim.AnswerDropped, "request dropped": sim.RequestDropped,
		"saved, but 503": sim.SavedBut503, "not applied": sim.NotApplied, "turned away": sim.TurnedAway(429, time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, blockedTask(), func(w *world) {
				d := w.daemon("a", sim.InTurn(sim.Openings, fault))
				_, err := w.reopen(d)
				if denied, not := errors.AsType[*claim.Denied](err); not {
					if w.shows(task.Blocked, "", ""); denied.RetryAfter == 0 || count(d, sim.Openings) > 1 {
						t.Errorf("denied as %+v after %v", denied, requests(d))
					}
					time.Sleep(denied.RetryAfter)
					_, err = w.reopen(d)
				}
				w.ok(err)
				w.shows(task.Open, "", "")
				if got := kinds(d); !slices.Equal(got, []claim.Kind{claim.KindReopened}) {
					t.Errorf("events %v, want one", got)
				}
			})
		})
	}
	t.Run("a mark in place of a name is put at last, when there are no more looks", func(t *testing.T) {
		first := openTask()
		first.Status, first.ClaimedBy = task.Blocked, "Ghost"
		inWorld(t, first, func(w *world) {
			f := sim.TurnedAway(429, time.Second)
			d := w.daemon("a", sim.InTurn(sim.Voidings, f, f, f, f))
			_, err := w.reopen(d)
			if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable || denied.RetryAfter == 0 {
				t.Errorf("denied as %+v", denied)
			}
			w.ok(errOf(w.reopen(d)))
			w.shows(task.Open, "", "")
		})
	})
	t.Run("none gets through", func(t *testing.T) {
		inWorld(t, blockedTask(), func(w *world) {
			d := w.daemon("a", sim.On(sim.Every(sim.Openings), sim.RequestDropped))
			_, err := w.reopen(d)
			if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable || len(kinds(d)) > 0 {
				t.Errorf("%v, events %v", err, kinds(d))
			}
			w.shows(task.Blocked, "", "")
		})
	})
}

// What somebody saw is a condition: what a person has decided since stays, however long ago
// it was seen. Unseen, only what waits for somebody to go on is opened.
func TestReopenOfWhatWasSeen(t *testing.T) {
	for _, tt := range []struct {
		seen, is task.Status
		opened   bool
	}{
		{"", task.Blocked, true}, {"", task.Failed, true}, {"", task.Review, true},
		{"", task.Completed, false}, {"", task.Cancelled, false}, {"", task.InProgress, false},
		{task.Blocked, task.Blocked, true}, {task.Completed, task.Completed, true}, {task.Cancelled, task.Cancelled, true}, {task.InProgress, task.InProgress, true},
		{task.Blocked, task.Completed, false}, {task.Blocked, task.Cancelled, false}, {task.Blocked, task.Review, false}, {task.Completed, task.Cancelled, false},
		{task.Open, task.Blocked, false},
	} {
		for _, name := range []string{"", "Ghost"} {
			if name != "" && tt.is == task.InProgress {
				continue // which is a claim, or an assignment
			}
			t.Run(fmt.Sprintf("seen as %q, is %s, with %q on it", tt.seen, tt.is, name), func(t *testing.T) {
				first := openTask()
				first.Status, first.ClaimedBy = tt.is, name
				inWorld(t, first, func(w *world) {
					d := w.daemon("a")
					want := w.Page(page)
					was, err := w.reopenSeen(d, tt.seen)
					if tt.opened {
						w.ok(err)
						w.shows(task.Open, "", "")
						if was != tt.is {
							t.Errorf("it was %s, want %s", was, tt.is)
						}
						return
					}
					denied := w.denied(err)
					if denied.Code != claim.CodeNotOpen || !strings.Contains(denied.Detail, "it is "+string(tt.is)) || !strings.Contains(denied.Detail, "--was "+string(tt.is)) {
						t.Errorf("refused as %s: %s", denied.Code, denied.Detail)
					}
					if diff := cmp.Diff(want, w.Page(page)); diff != "" || len(kinds(d)) > 0 {
						t.Errorf("events %v; page (-want +got):\n%s", kinds(d), diff)
					}
				})
			})
		}
	}
}

// Nor is a task opened that was to be as its last claim left it, and that somebody edited since.
func TestReopenOfWhatNobodyEdited(t *testing.T) {
	for _, edited := range []bool{false, true} {
		first := openTask()
		first.Status, first.EditedBy = task.Blocked, "the bot"
		left := first
		if edited {
			first.EditedBy = "Maria"
		}
		inWorld(t, first, func(w *world) {
			_, _, err := w.daemon("a").Reopen(w.ctx, claim.Reopening{Task: first, Left: &left})
			if !edited {
				w.ok(err)
			} else if denied := w.denied(err); denied.Code != claim.CodeNotOpen || w.Page(page).Status != task.Blocked {
				t.Errorf("refused as %s, and the page is %+v", denied.Code, w.Page(page))
			}
		})
	}
}

// followed is a store after whose writes something else happens.
type followed struct {
	claim.Store
	by func()
}

func (f followed) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	defer f.by()
	return f.Store.Write(ctx, id, w)
}

// A person decides while the task is being reopened: after the name was taken off, or while
// it is not known whether the write has landed. The decision stays, and is told.
func TestReopenBesideADecision(t *testing.T) {
	t.Run("after the name was taken off", func(t *testing.T) {
		first := openTask()
		first.Status, first.ClaimedBy = task.Blocked, "Ghost"
		inWorld(t, first, func(w *world) {
			d := w.daemon("a")
			time.AfterFunc(d.Policy().Settle/2, func() { w.Edit(page, func(t *task.Task) { t.Status = task.Completed }) })
			if _, err := w.reopenSeen(d, task.Blocked); w.denied(err).Code != claim.CodeNotOpen {
				t.Errorf("reopening what a person completed meanwhile: %v", err)
			}
			w.shows(task.Completed, "", "")
		})
	})
	for name, fault := range map[string]sim.Fault{"answer dropped": sim.AnswerDropped, "request dropped": sim.RequestDropped} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, blockedTask(), func(w *world) {
				cancel := func() { w.Edit(page, func(t *task.Task) { t.Status = task.Cancelled }) }
				d := w.daemon("a", func(s claim.Store) claim.Store { return followed{s, cancel} }, sim.InTurn(sim.Openings, fault))
				if _, err := w.reopenSeen(d, task.Blocked); w.denied(err).Code != claim.CodeNotOpen {
					t.Errorf("reopening what a person cancelled meanwhile: %v", err)
				}
				w.shows(task.Cancelled, "", "")
			})
		})
	}
}

// TestMove gives tasks another status than OPEN, as a person does, who has seen them in one.
func TestMove(t *testing.T) {
	assigned := task.Task{Status: task.Open, ClaimedBy: "Ghost"}
	live := task.Task{Status: task.InProgress, ClaimedBy: "Ghost", ClaimedAt: bubbleStart.Add(-time.Minute), Token: string(ghost)}
	reviewed := task.Task{Status: task.Review, ClaimedBy: "Ghost", ClaimedAt: bubbleStart.Add(-time.Minute), Token: "done " + string(ghost) + " Ghost"}
	const line = "look again — user maria, 2000-01-01 00:00 UTC"
	for _, tt := range []struct {
		name     string
		page     task.Task
		was, to  task.Status
		code     claim.Code
		kind     claim.Kind
		noteLine string
	}{
		{name: "an open one is blocked", page: task.Task{Status: task.Open}, was: task.Open, to: task.Blocked, kind: claim.KindBlocked, noteLine: "Blocked: " + line},
		{name: "an assigned one is cancelled", page: assigned, was: task.Open, to: task.Cancelled, kind: claim.KindCancelled, noteLine: "Cancelled: " + line},
		{name: "one in review is approved, and keeps its name", page: reviewed, was: task.Review, to: task.Completed, kind: claim.KindCompleted, noteLine: "Done: " + line},
		{name: "it is so already", page: task.Task{Status: task.Cancelled}, was: task.Open, to: task.Cancelled},
		{name: "somebody else decided otherwise", page: task.Task{Status: task.Completed}, was: task.Open, to: task.Cancelled, code: claim.CodeNotOpen},
		{name: "an agent has it", page: live, was: task.InProgress, to: task.Cancelled, code: claim.CodeHeld},
		{name: "an agent has claimed it since", page: live, was: task.Open, to: task.Blocked, code: claim.CodeHeld},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := tt.page
			first.ID, first.Title = page, "Mend the roof"
			inWorld(t, first, func(w *world) {
				d := w.daemon("a")
				want := w.Page(page)
				got, was, err := d.Reopen(w.ctx, claim.Reopening{Task: task.Task{ID: page}, By: "user maria", Note: "look again", Was: tt.was, Holder: first.ClaimedBy, To: tt.to})
				if tt.code != "" {
					if denied := w.denied(err); denied.Code != tt.code || !strings.Contains(denied.Detail, "was not set to "+string(tt.to)) {
						t.Errorf("refused as %s (%v), want %s", denied.Code, err, tt.code)
					}
				} else if w.ok(err); got.Status != tt.to || was != first.Status {
					t.Errorf("it was %s and is %s, want %s and %s", was, got.Status, first.Status, tt.to)
				}
				if tt.kind != "" {
					want.Status, want.Note = tt.to, tt.noteLine
				}
				same(t, "page", want, w.Page(page))
				if got := kinds(d); tt.kind == "" && len(got) > 0 || tt.kind != "" && !slices.Equal(got, []claim.Kind{tt.kind}) {
					t.Errorf("events %v, want %s", got, tt.kind)
				}
			})
		})
	}
}

// The name that somebody saw is a condition, as the status is: a person who wrote another one on
// the task has it. Unseen, only the name of the task's last claim goes.
func TestReopenUnderAName(t *testing.T) {
	const name = "Ann"
	ends := func(as claim.Ending) func(*world, *sim.Daemon) {
		return func(w *world, d *sim.Daemon) {
			w.ok(errOf(d.Finish(w.ctx, w.claim(d, "Sandman").ID, claim.Finish{As: as})))
		}
	}
	sets := func(s task.Status) func(*world, *sim.Daemon) {
		return func(w *world, _ *sim.Daemon) { w.Edit(page, func(t *task.Task) { t.Status = s }) }
	}
	writes := func(w *world) { w.Edit(page, func(t *task.Task) { t.ClaimedBy = name }) }
	for what, before := range map[string]func(*world, *sim.Daemon){
		"completed": ends(claim.EndCompleted), "blocked": ends(claim.EndBlocked), "in review": ends(claim.EndReview),
		"cancelled": sets(task.Cancelled), "open": sets(task.Open),
		"blocked by a person under a claim": func(w *world, d *sim.Daemon) {
			w.claim(d, "Sandman")
			sets(task.Blocked)(w, d)
		},
	} {
		for _, to := range claim.ToStatuses() {
			for _, tt := range []struct {
				seen string // the name that the caller saw
				ann  bool   // whether it is on the page by then
				done bool
			}{{"", false, true}, {"Sandman", false, true}, {"", true, false}, {"Sandman", true, false}, {name, true, true}} {
				t.Run(fmt.Sprintf("%s, to %s, seen %q, %v", what, to, tt.seen, tt), func(t *testing.T) {
					inWorld(t, openTask(), func(w *world) {
						d := w.daemon("a")
						before(w, d)
						if tt.ann {
							writes(w)
						}
						want := w.Page(page)
						if want.Status == to {
							return // nothing is done
						}
						_, _, err := d.Reopen(w.ctx, claim.Reopening{Task: task.Task{ID: page}, By: "user maria", Was: want.Status, Holder: tt.seen, To: to})
						got := w.Page(page)
						if tt.done {
							w.ok(err)
							if got.Status != to || to == task.Open && got.ClaimedBy != "" {
								t.Errorf("the page shows %s of %q, want it %s", got.Status, got.ClaimedBy, to)
							}
							return
						}
						if denied := w.denied(err); denied.Code != claim.CodeReserved || denied.Holder != name || !strings.Contains(denied.Detail, name+" has it") {
							t.Errorf("refused as %s: %v, want reserved by %s", denied.Code, err, name)
						}
						if got.ClaimedBy != name || got.Status != want.Status {
							t.Errorf("the page shows %s of %q, want it as it was", got.Status, got.ClaimedBy)
						}
					})
				})
			}
		}
	}
	// A name that is written while the old one is taken off stays, too.
	for nth := 1; nth < 3; nth++ {
		inWorld(t, openTask(), func(w *world) {
			n := 0
			d := w.daemon("a", func(s claim.Store) claim.Store {
				return followed{s, func() {
					if n--; n == 0 {
						writes(w)
					}
				}}
			})
			ends(claim.EndCompleted)(w, d)
			n = nth
			_, _, err := d.Reopen(w.ctx, claim.Reopening{Task: task.Task{ID: page}, By: "user maria", Was: task.Completed})
			if n > 0 {
				t.Errorf("there was no write %d", nth)
			}
			if got := w.Page(page); w.denied(err).Code != claim.CodeReserved || got.ClaimedBy != name || got.Status != task.Completed {
				t.Errorf("after write %d: %v, and the page shows %s of %q", nth, err, got.Status, got.ClaimedBy)
			}
		})
	}
}
