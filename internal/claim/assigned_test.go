package claim_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// assignedTask is a task that a person has put Sandman's name on.
func assignedTask() task.Task {
	t := openTask()
	t.ClaimedBy = "Sandman"
	return t
}

// assigned checks that the page shows the assignment, and nothing else.
func (w *world) assigned() {
	w.Helper()
	w.shows(task.Open, "Sandman", "")
	if got := w.Page(page).ClaimedAt; !got.IsZero() {
		w.Errorf("the page shows the date %v, want none", got)
	}
}

// An attempt that came to nothing leaves an assignment as it was, whatever becomes of the
// writes that take it back.
func TestWithdrawalFromAnAssignment(t *testing.T) {
	for name, f := range map[string]sim.Fault{
		"in time": nil, "answer dropped": sim.AnswerDropped, "request dropped": sim.RequestDropped,
		"late": sim.Late(5 * time.Second), "not applied": sim.NotApplied,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, assignedTask(), func(w *world) {
				faults := []sim.Fault{sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second))}
				if f != nil {
					faults = append(faults, sim.InTurn(sim.Openings, f))
				}
				d, other := w.daemon("a", faults...), w.daemon("b")
				w.deny(d, "Sandman", claim.CodeNotionUnavailable)
				w.sync(5*time.Minute, d)
				w.assigned()
				w.none(d)
				if diff := cmp.Diff([]claim.Kind{claim.KindDenied, claim.KindWithdrawn}, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				w.deny(other, "Oracle", claim.CodeReserved)
				w.claim(other, "Sandman")
			})
		})
	}
}

// So does one that is cut short.
func TestCrashInTheMiddleOfAnAssignment(t *testing.T) {
	inWorld(t, assignedTask(), func(w *world) {
		d := w.daemon("a")
		go func() { _, _ = d.Claim(w.ctx, request("Sandman")) }()
		time.Sleep(time.Second)
		d.Kill()
		next, err := d.Successor(w.ctx)
		w.ok(err)
		defer next.Close()
		w.sync(graceful, next)
		w.assigned()
	})
}

// A grant that nobody hears of is given back as it was; an agent that gives the task back
// gives it to all.
func TestAssignmentIsGivenBack(t *testing.T) {
	inWorld(t, assignedTask(), func(w *world) {
		d := w.daemon("a")
		gone, leave := context.WithCancel(w.ctx)
		time.AfterFunc(time.Second, leave)
		if _, err := d.Claim(gone, request("Sandman")); err == nil {
			t.Fatal("the caller was answered")
		}
		w.assigned()
		w.none(d)
		w.finish(d, w.claim(d, "Sandman"), claim.EndReleased)
		w.shows(task.Open, "", "")
	})
}
