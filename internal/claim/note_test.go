package claim_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// The note says what became of the task, in the write that sets the status.
func TestNote(t *testing.T) {
	for _, tt := range []struct {
		finish claim.Finish
		want   string
	}{
		{claim.Finish{As: claim.EndCompleted, Summary: "mended\nand painted"}, "Done: mended and painted — Sandman, 2000-01-01 00:00 UTC"},
		{claim.Finish{As: claim.EndCompleted}, "Done — Sandman, 2000-01-01 00:00 UTC"},
		{claim.Finish{As: claim.EndBlocked, Summary: "rain"}, "Blocked: rain — Sandman, 2000-01-01 00:00 UTC"},
		{claim.Finish{As: claim.EndFailed, Summary: "no ladder"}, "Failed: no ladder — Sandman, 2000-01-01 00:00 UTC"},
		{claim.Finish{As: claim.EndFailed, Summary: "no ladder", Reopen: true}, "Failed, to be tried again: no ladder — Sandman, 2000-01-01 00:00 UTC"},
		{claim.Finish{As: claim.EndReleased, Summary: "needs two"}, "Given back: needs two — Sandman, 2000-01-01 00:00 UTC"},
	} {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a")
			c := w.claim(d, "Sandman")
			sent := len(d.Store.Calls())
			w.end(d, c, tt.finish)
			w.noted(tt.want)
			if n := len(d.Store.Calls()) - sent; n != 2 {
				w.Errorf("%d requests, want a read and a write", n)
			}
		})
	}
}

// Who asked for a claim or a sweep in the place of others is in the record.
func TestWhoAskedIsRecorded(t *testing.T) {
	inWorld(t, staleTask(), func(w *world) {
		d := w.daemon("a")
		_, swept, err := d.SweepFor(w.ctx, page, "swept by Maria", "user ada")
		if w.ok(err); !swept {
			w.Fatal("not swept")
		}
		if note := w.Page(page).Note; !strings.Contains(note, " — user ada, ") {
			w.Errorf("the note of the sweep is %q", note)
		}
		_, err = d.Claim(w.ctx, claim.Request{Agent: "Sandman", Task: w.Page(page), Note: "accepted by Maria"})
		w.ok(err)
		time.Sleep(2 * time.Hour)
		_, err = d.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: w.Page(page), Note: "accepted by Tom"})
		w.ok(err)
		details := map[claim.Kind][]string{}
		for _, e := range d.Ledger.Events() {
			if e.Kind == claim.KindSwept && e.By != "user ada" {
				w.Errorf("the sweep was asked for by %q", e.By)
			}
			details[e.Kind] = append(details[e.Kind], e.Detail)
		}
		if got := details[claim.KindSwept]; len(got) != 1 || !strings.Contains(got[0], "; swept by Maria; ") {
			w.Errorf("the sweep says %q", got)
		}
		want := []string{"accepted by Maria", "overrides the stale claim of Sandman; accepted by Tom"}
		if diff := cmp.Diff(want, details[claim.KindGranted]); diff != "" {
			w.Errorf("what was granted (-want +got):\n%s", diff)
		}
	})
}

// The next agent finds why the task is open again; what it says itself takes its place.
func TestNoteIsKeptUntilTheNextOne(t *testing.T) {
	first := openTask()
	first.Note = "Ask Maria for the key."
	inWorld(t, first, func(w *world) {
		d := w.daemon("a")
		w.end(d, w.claim(d, "Sandman"), claim.Finish{As: claim.EndReleased, Summary: "no key"})
		c := w.claim(d, "Oracle")
		want := "Ask Maria for the key.\nGiven back: no key — Sandman, 2000-01-01 00:00 UTC"
		if c.Task.Note != want {
			w.Errorf("claimed with the note %q, want %q", c.Task.Note, want)
		}
		w.end(d, c, claim.Finish{As: claim.EndCompleted, Summary: "mended"})
		w.noted("Ask Maria for the key.\nDone: mended — Oracle, 2000-01-01 00:00 UTC")
	})
}

// Who was refused learns until when, and so does the log.
func TestDenialSaysUntilWhen(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a, b := w.daemon("a"), w.daemon("b")
		w.claim(a, "Sandman")
		denied := w.deny(b, "Oracle", claim.CodeHeld)
		last := latest(b)
		if denied.ExpiresAt.IsZero() || !last.Expires.Equal(denied.ExpiresAt) {
			w.Errorf("the log says until %v, want %v", last.Expires, denied.ExpiresAt)
		}
	})
}

func TestNoted(t *testing.T) {
	const own, next = "Blocked: rain — Sandman, 2026-11-22 14:02 UTC", "Done: mended — Oracle, 2026-11-23 09:00 UTC"
	for _, tt := range []struct{ name, note, want string }{
		{"nothing", "", next},
		{"ours", own, next},
		{"theirs", "Mind the dog.", "Mind the dog.\n" + next},
		{"theirs, with a break", "Mind the dog.\n", "Mind the dog.\n" + next},
		{"theirs above ours", "Mind the dog.\n" + own, "Mind the dog.\n" + next},
		{"theirs below ours", own + "\nIt stopped. Maria", "It stopped. Maria\n" + next},
		{"theirs around ours", "Mind the dog.\n" + own + "\nIt stopped.", "Mind the dog.\nIt stopped.\n" + next},
		{"two of ours", own + "\n" + own, next},
		{"ours, with breaks", own + "\n\n", "\n" + next},
		{"a person's answer in our line", own + ": it stopped. Maria", own + ": it stopped. Maria\n" + next},
		{"a person's word before our line", "Maria: " + own, "Maria: " + own + "\n" + next},
		{"somebody else's signature", "Blocked by the rain — Maria, yesterday", "Blocked by the rain — Maria, yesterday\n" + next},
	} {
		if got := claim.Noted(tt.note, next); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// However long a reason is, the note has its end, by which it is known for ours.
func TestLongNote(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		w.end(d, w.claim(d, "Sandman"), claim.Finish{As: claim.EndBlocked, Summary: strings.Repeat("rain ", 1000)})
		note := w.Page(page).Note
		if len(note) > 1100 || !strings.HasSuffix(note, "… — Sandman, 2000-01-01 00:00 UTC") {
			w.Errorf("note of %d bytes, ending in %q", len(note), note[len(note)-60:])
		}
	})
}

// A card is told why its task can never become ready below what people wrote, once, and only while
// the page itself shows that nobody has the task.
func TestTell(t *testing.T) {
	const why = "it waits for “Gone”, which is CANCELLED"
	const line = "Stuck: " + why + " — dibs, 2000-01-01 00:00 UTC"
	with := func(change func(*task.Task)) task.Task {
		one := openTask()
		one.Note = "Mind the cat."
		change(&one)
		return one
	}
	for name, tt := range map[string]struct {
		page         task.Task
		told, writes bool
		want         string
	}{
		"nobody's":       {page: with(func(*task.Task) {}), told: true, writes: true, want: "Mind the cat.\n" + line},
		"told before":    {page: with(func(p *task.Task) { p.Note = strings.Replace(line, "01-01", "01-02", 1) + "\nI see." }), told: true, want: strings.Replace(line, "01-01", "01-02", 1) + "\nI see."},
		"told otherwise": {page: with(func(p *task.Task) { p.Note += "\n" + strings.Replace(line, "Gone", "Lost", 1) }), told: true, writes: true, want: "Mind the cat.\n" + line},
		"a person's":     {page: with(func(p *task.Task) { p.ClaimedBy = "Maria" }), want: "Mind the cat."},
		"another agent's": {page: with(func(p *task.Task) {
			p.Status, p.ClaimedBy, p.ClaimedAt, p.Token = task.InProgress, "Ghost", bubbleStart, string(ghost)
		}), want: "Mind the cat."},
		"in the trash":      {page: with(func(p *task.Task) { p.Trashed = true }), want: "Mind the cat."},
		"ready after all":   {page: with(func(p *task.Task) { p.DependsOn = nil; p.Title = "free" }), want: "Mind the cat."},
		"blocked meanwhile": {page: with(func(p *task.Task) { p.Status = task.Blocked }), want: "Mind the cat."},
	} {
		inWorld(t, tt.page, func(w *world) {
			d := w.daemon("a")
			told, err := d.Tell(w.ctx, page, func(p task.Task) string {
				if p.Title == "free" {
					return ""
				}
				return why
			})
			w.ok(err)
			if got := w.Page(page).Note; told != tt.told || got != tt.want || len(d.Store.Calls()) > 1 != tt.writes {
				w.Errorf("%s: told is %v, the note %q, want %q", name, told, got, tt.want)
			}
		})
	}
	inWorld(t, openTask(), func(w *world) { // held here
		d := w.daemon("a")
		w.claim(d, "Sandman")
		sent := len(d.Store.Calls())
		if told, err := d.Tell(w.ctx, page, func(task.Task) string { return why }); told || err != nil || len(d.Store.Calls()) != sent {
			t.Errorf("told is %v, %v, after %d requests", told, err, len(d.Store.Calls())-sent)
		}
	})
}

// patient starts a daemon under which a task may be tried so many times.
func (w *world) patient(name string, attempts int, faults ...sim.Fault) *sim.Daemon {
	w.Helper()
	p := sim.Policy()
	p.MaxAttempts = attempts
	return w.start(sim.DaemonOptions{Policy: p, StoreOptions: sim.StoreOptions{Name: name}}, faults...)
}

// fails has the agent claim the page and fail at it.
func (w *world) fails(d *sim.Daemon, agent, why string) claim.Hold {
	w.Helper()
	c := w.claim(d, agent)
	c, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndFailed, Reopen: true, Summary: why})
	w.ok(err)
	return c
}

// noted checks the last line of the page's note.
func (w *world) noted(want string) {
	w.Helper()
	if got := w.Page(page).Note; got != want {
		w.Errorf("the note says\n%s\nwant\n%s", got, want)
	}
}

func TestTasksThatFailTooOften(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.patient("a", 2)
		if c := w.fails(d, "Sandman", "no ladder"); c.Task.Status != task.Open || c.Detail != "" {
			w.Fatalf("after one of two attempts the task is %s: %s", c.Task.Status, c.Detail)
		}
		time.Sleep(time.Hour)
		c := w.fails(d, "Oracle", "rain")
		w.shows(task.Blocked, "", "")
		const history = "tried 2 times: Sandman failed at 2000-01-01 00:00 UTC (no ladder), Oracle failed at 2000-01-01 01:00 UTC (rain)"
		w.noted("Blocked: " + history + " — Oracle, 2000-01-01 01:00 UTC")
		if c.Ending != claim.EndFailed || c.Detail != "the task is BLOCKED: "+history {
			w.Errorf("the claim ended as %s: %s", c.Ending, c.Detail)
		}
		if last := latest(d); last.Kind != claim.KindFailed || last.Summary != "rain" || last.Detail != c.Detail {
			w.Errorf("last event %+v", last)
		}

		// It begins anew once it is reopened.
		_, err := w.reopen(d)
		w.ok(err)
		w.fails(d, "Sandman", "")
		w.shows(task.Open, "", "")
	})
}

// What is done, given back or lost to a person is no failure.
func TestWhatIsNoTry(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.patient("a", 2)
		w.fails(d, "Sandman", "no ladder")
		c := w.claim(d, "Oracle")
		w.finish(d, c, claim.EndReleased)
		w.claim(d, "Oracle")
		w.Edit(page, func(t *task.Task) { t.Status = task.Open; unclaim(t) })
		w.sync(time.Minute, d)
		if tries, err := d.Ledger.Tries(w.ctx, page); err != nil || len(tries) != 1 {
			w.Errorf("tries %v, %v; want Sandman's", tries, err)
		}
		c = w.claim(d, "Oracle")
		w.finish(d, c, claim.EndReview)
		if tries, err := d.Ledger.Tries(w.ctx, page); err != nil || len(tries) != 0 {
			w.Errorf("tries %v, %v; want none after work that came to something", tries, err)
		}
	})
}

// A task that goes stale that often is set to BLOCKED by the sweep, whoever held it.
func TestTasksThatGoStaleTooOften(t *testing.T) {
	inWorld(t, staleTask(), func(w *world) {
		d := w.patient("a", 2)
		_, swept, err := d.Sweep(w.ctx, page)
		w.ok(err)
		w.shows(task.Open, "", "")
		w.claim(d, "Sandman")
		time.Sleep(2 * time.Hour)
		former, swept2, err := d.Sweep(w.ctx, page)
		w.ok(err)
		if !swept || !swept2 || former != "Sandman" {
			w.Errorf("swept %v, %v, of %s", swept, swept2, former)
		}
		w.shows(task.Blocked, "", "")
		w.noted("Blocked: tried 2 times: the claim of Ghost ran out at 2000-01-01 00:00 UTC, the claim of Sandman ran out at 2000-01-01 00:31 UTC — dibs, 2000-01-01 02:00 UTC")
		if last := latest(d); last.Kind != claim.KindSwept || !strings.Contains(last.Detail, "; the task is BLOCKED: tried 2 times: ") {
			w.Errorf("last event %+v", last)
		}
	})
}

// A stale claim is not overridden when it was the last try: the task is set to BLOCKED.
func TestNoOverrideAfterTheLastTry(t *testing.T) {
	inWorld(t, staleTask(), func(w *world) {
		d := w.patient("a", 2)
		c := w.claim(d, "Sandman") // the first one
		if c.Former != "Ghost" {
			w.Fatalf("the claim overrode %q", c.Former)
		}
		time.Sleep(2 * time.Hour)
		sent := len(d.Store.Calls())
		denied := w.deny(d, "Oracle", claim.CodeNotOpen)
		if !strings.Contains(denied.Detail, "claim.max_attempts") {
			w.Errorf("denied: %s", denied.Detail)
		}
		if got := requests(d)[sent:]; !slices.Equal(got, []sim.Kind{sim.Reads, sim.Voidings}) {
			w.Errorf("requests %v, want a read and the mark", got)
		}
		time.Sleep(5 * time.Second)
		w.due(d)
		w.shows(task.Blocked, "", "")
		w.none(d)
		if note := w.Page(page).Note; !strings.HasPrefix(note, "Blocked: tried 2 times: the claim of Ghost ran out at ") {
			w.Errorf("note %q", note)
		}
		w.ended(d, c, claim.EndSwept)
	})
}

// A claim that went stale and was swept by another daemon counts here, too.
func TestTriesEndedByAnotherDaemon(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.patient("a", 2), w.daemon("other")
		w.claim(d, "Sandman")
		time.Sleep(2 * time.Hour)
		if _, swept, err := other.Sweep(w.ctx, page); err != nil || !swept {
			w.Fatalf("swept %v, %v", swept, err)
		}
		w.sync(time.Minute, d)
		if tries, err := d.Ledger.Tries(w.ctx, page); err != nil || len(tries) != 1 || tries[0].Agent != "Sandman" || tries[0].Failed {
			w.Errorf("tries %+v, %v; want Sandman's, which ran out", tries, err)
		}
		w.fails(d, "Oracle", "rain")
		w.shows(task.Blocked, "", "")
	})
}

// A claim that goes stale counts once, also if the guard sees its page before it is known
// here that a sweep of this daemon has reopened it.
func TestASweepInDoubtIsOneTry(t *testing.T) {
	for name, attempts := range map[string]int{"reopened": 5, "blocked": 1} {
		play(t, name, openTask(), func(w *world) {
			d := w.patient("a", attempts, sim.InTurn(sim.Openings, sim.AnswerDropped), sim.InTurn(sim.Blockings, sim.AnswerDropped))
			c := w.claim(d, "Sandman")
			time.Sleep(2 * time.Hour)
			if _, swept, _ := d.Sweep(w.ctx, page); swept {
				w.Fatal("the sweep knows that it is done")
			}
			_ = d.Guard(w.ctx, c.ID, nil)
			w.sync(10*time.Minute, d)
			w.none(d)
			tries, err := d.Ledger.Tries(w.ctx, page)
			w.ok(err)
			if want := attempts - 1; len(tries) != min(1, want) {
				w.Errorf("tries %+v, want %d", tries, min(1, want))
			}
		})
	}
}

// What is decided when the agent fails stays so, whatever becomes of the write and of the
// daemon.
func TestTheLastTrySurvives(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		away := false
		d := w.patient("a", 1, sim.Outage(func() bool { return away }))
		c := w.claim(d, "Sandman")
		away = true
		w.owes(w.end(d, c, claim.Finish{As: claim.EndFailed, Reopen: true, Summary: "rain"}))
		d.Kill()
		d, err := d.Successor(w.ctx)
		w.ok(err)
		away = false
		w.sync(10*time.Minute, d)
		w.shows(task.Blocked, "", "")
		w.noted("Blocked: tried once: Sandman failed at 2000-01-01 00:00 UTC (rain) — Sandman, 2000-01-01 00:00 UTC")
	})
}

// The history of many tries tells of the last ones.
func TestHistoryOfManyTries(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.patient("a", 9)
		for range 9 {
			w.fails(d, "Sandman", strings.Repeat("no ladder ", 50))
			time.Sleep(time.Minute)
		}
		note := w.Page(page).Note
		if !strings.HasPrefix(note, "Blocked: tried 9 times, the last 6: Sandman failed at ") || strings.Contains(note, "\n") || len([]rune(note)) > 1100 {
			w.Errorf("note %q", note)
		}
		if found := claim.NoteLines(note); len(found) != 1 {
			w.Errorf("it is not known for a line of ours: %q", note)
		}
	})
}

// A board without FAILED has BLOCKED in its place; one without REVIEW has nothing, and
// nothing is done.
func TestOptionalStatuses(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		p := sim.Policy()
		p.Review, p.Failed = false, true
		d := w.start(sim.DaemonOptions{Policy: p, StoreOptions: sim.StoreOptions{Name: "a"}})
		c := w.claim(d, "Sandman")
		sent := len(d.Store.Calls())
		if _, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReview}); !errors.Is(err, claim.ErrNoReview) || len(d.Store.Calls()) != sent {
			w.Errorf("review on a board without it: %v", err)
		}
		w.end(d, c, claim.Finish{As: claim.EndFailed, Summary: "rain"})
		w.shows(task.Failed, "", "")
		w.noted("Failed: rain — Sandman, 2000-01-01 00:00 UTC")
		w.deny(d, "Oracle", claim.CodeNotOpen)
	})
}

// Work that waits for review keeps the name of who did it, holds nobody up, and is no claim
// once a person opens it again.
func TestReview(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		p := sim.Policy()
		p.MaxPerAgent = 1
		d := w.start(sim.DaemonOptions{Policy: p, StoreOptions: sim.StoreOptions{Name: "a"}})
		w.Add(task.Task{ID: otherPage, Status: task.Open})
		c := w.claim(d, "Sandman")
		w.end(d, c, claim.Finish{As: claim.EndReview, Summary: "look at the ridge"})
		w.finished(c, task.Review)
		w.noted("In review: look at the ridge — Sandman, 2000-01-01 00:00 UTC")
		w.deny(d, "Oracle", claim.CodeNotOpen)
		if _, err := d.Claim(w.ctx, claim.Request{Agent: "Sandman", Task: task.Task{ID: otherPage}}); err != nil {
			w.Errorf("Sandman cannot go on with another task: %v", err)
		}
		w.sync(2*time.Hour, d)
		w.finished(c, task.Review)
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
		w.claim(w.daemon("b"), "Oracle")
	})
}
