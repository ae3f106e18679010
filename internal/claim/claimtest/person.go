package claimtest

import (
	"context"
	"math/rand/v2"
	"reflect"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// gesture is a person's change to a task. frees reports whether it takes a live claim off its
// page or cuts its lease short, so that somebody else may get the task before the holder is
// told.
type gesture func(*rand.Rand, *task.Task) (frees bool)

// gestures are the changes that busy people make to any task.
var gestures = []gesture{
	func(_ *rand.Rand, t *task.Task) bool { t.ClaimedBy = "Pasithea"; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Blocked; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Cancelled; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Completed; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Trashed = true; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Token = ""; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.ClaimedAt = time.Time{}; return false },
	func(_ *rand.Rand, t *task.Task) bool { t.Status = task.Open; return false },
	func(r *rand.Rand, t *task.Task) bool {
		t.Timeout = time.Duration(r.IntN(5)) * time.Minute
		return true
	},
	func(_ *rand.Rand, t *task.Task) bool { handOut(t); return true },
	func(_ *rand.Rand, t *task.Task) bool {
		if t.Status == task.Open && t.ClaimedBy == "" {
			t.ClaimedBy = "Hypnos"
		}
		return false
	},
}

// handOut makes a task available to anybody.
func handOut(t *task.Task) {
	t.Status, t.ClaimedBy, t.ClaimedAt, t.Token, t.Trashed = task.Open, "", time.Time{}, "", false
}

// person reopens finished and blocked tasks and, if people are busy, makes random changes.
// After a while it hands out tasks that nobody can claim any more.
func (r *race) person(ctx context.Context, rnd *rand.Rand) {
	patience := 0
	for sim.Sleep(ctx, 10*time.Second+sim.UpTo(rnd, 20*time.Second)) == nil {
		id := r.pages[rnd.IntN(len(r.pages))]
		t := r.register.Page(id)
		stuck := t.Trashed || waits(t.Status) ||
			claim.Assignee(t) != "" || t.ClaimedBy != "" && t.ClaimedAt.IsZero() || t.ClaimedBy == "" && t.Status == task.InProgress
		switch acts := r.faulty.Load(); {
		case acts && waits(t.Status) && rnd.IntN(2) == 0:
			r.edit(id, func(t *task.Task) bool { t.Status = task.Open; return false })
		case acts && t.Trashed && rnd.IntN(2) == 0:
			r.edit(id, func(t *task.Task) bool { t.Trashed = false; return false })
		case acts && r.busy && rnd.IntN(2) == 0:
			g := gestures[rnd.IntN(len(gestures))]
			r.edit(id, func(t *task.Task) bool { return g(rnd, t) })
		case r.busy && stuck:
			if patience++; patience%3 == 0 {
				r.edit(id, func(t *task.Task) bool { handOut(t); return true })
			}
		}
	}
}

// waits reports whether a task in this status must be opened before anybody can claim it.
func waits(s task.Status) bool { return s != task.Open && s != task.InProgress && s != task.Unknown }

// reopen makes daemons reopen tasks in any status, until acting ends.
func (r *race) reopen(ctx, acting context.Context, rnd *rand.Rand) {
	for sim.Sleep(acting, sim.UpTo(rnd, 20*time.Second)) == nil {
		d := r.daemons[rnd.IntN(len(r.daemons))].Load()
		id := r.pages[rnd.IntN(len(r.pages))]
		if _, _, err := d.Reopen(ctx, claim.Reopening{Task: task.Task{ID: id}, Agent: "Nyx", Was: r.register.Page(id).Status, Holder: r.register.Page(id).ClaimedBy}); err == nil {
			r.check("reopening")
		}
	}
}

// edit applies a person's change.
func (r *race) edit(id task.ID, change func(*task.Task) bool) {
	freed := false
	r.register.Edit(id, func(t *task.Task) {
		was := *t
		frees := change(t)
		freed = frees || handsOn(was, *t)
	})
	if freed { // not under the register's lock, which others take while they hold ours
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Freed = true
		r.books.freed[id] = time.Now()
	}
}

// handsOn reports whether a change of was to is makes a claim an assignment to any session of its
// name. It does if a person clears the date of the claim and then its token, or the other way
// round, or if the task is set to OPEN after the date was cleared.
func handsOn(was, is task.Task) bool {
	return was.ClaimedBy != "" && was.ClaimedBy == is.ClaimedBy && claim.Assignee(was) == "" && claim.Assignee(is) != ""
}

// openedUndated returns when a reopening last set a task to OPEN under a claim whose date a person
// had cleared; zero if none did. The reopening rests on a reading from before the claim, and
// changes the status alone.
func (r *race) openedUndated(id task.ID) time.Time {
	history := r.register.History(id)
	for i := len(history) - 1; i > 0; i-- {
		v, was := history[i], history[i-1]
		only := was.Task
		only.Status, only.Note = v.Task.Status, v.Task.Note
		if v.By != "" && was.By == "" && was.Task.ClaimedAt.IsZero() && handsOn(was.Task, v.Task) && reflect.DeepEqual(only, v.Task) {
			return v.From
		}
	}
	return time.Time{}
}
