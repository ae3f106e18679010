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

// initial is the state of a claim, which is that of an attempt if none is given.
func initial(s claim.State) claim.State {
	if s == "" {
		return claim.Reserved
	}
	return s
}

// What an earlier run of the daemon left in each state.
func TestRecover(t *testing.T) {
	left := func(s claim.State) claim.Hold {
		c := claim.Hold{
			ID: claim.NewID(bubbleStart), Agent: "Sandman", Task: openTask(), State: s,
			Reserved: bubbleStart, Lease: claim.Lease{ClaimedAt: bubbleStart, Timeout: 30 * time.Minute},
		}
		if s != claim.Reserved && s != claim.Writing {
			c.Started, c.StaleAt = bubbleStart, sim.Policy().StaleAt(bubbleStart, 30*time.Minute)
		}
		return c
	}
	written := func(t *task.Task, c claim.Hold) { hold(t, c.Agent, bubbleStart); t.Token = string(c.ID) }
	tests := []struct {
		name  string
		state claim.State
		claim func(*claim.Hold)
		mark  claim.MarkState // of what is left of an attempt
		due   time.Time
		page  func(*task.Task, claim.Hold)

		held   bool // in the end
		ending claim.Ending
		kinds  []claim.Kind
		status task.Status
	}{
		{
			name: "reserved", state: claim.Reserved, page: func(*task.Task, claim.Hold) {},
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied}, status: task.Open,
		},
		{
			name: "writing, not written", state: claim.Writing, page: func(*task.Task, claim.Hold) {},
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied}, status: task.Open,
		},
		{
			name: "writing, written", state: claim.Writing, page: written,
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied, claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "writing, overwritten", state: claim.Writing,
			page:   func(t *task.Task, _ claim.Hold) { hold(t, "Oracle", bubbleStart) },
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindDenied}, status: task.InProgress,
		},
		{name: "held", state: claim.Held, page: written, held: true, status: task.InProgress},
		{
			name: "held, lost meanwhile", state: claim.Held, page: func(*task.Task, claim.Hold) {},
			ending: claim.EndLost, kinds: []claim.Kind{claim.KindLost}, status: task.Open,
		},
		{
			name: "finishing", state: claim.Finishing, page: written,
			claim: func(c *claim.Hold) {
				c.Finish = &claim.Finish{As: claim.EndCompleted, At: bubbleStart}
				c.Due = bubbleStart.Add(time.Hour) // it had been put off
			},
			ending: claim.EndCompleted, kinds: []claim.Kind{claim.KindCompleted}, status: task.Completed,
		},
		{
			name: "finishing, but lost", state: claim.Finishing,
			page: func(t *task.Task, _ claim.Hold) { t.Status, t.ClaimedBy = task.InProgress, "Maria" },
			claim: func(c *claim.Hold) {
				c.Finish = &claim.Finish{As: claim.EndCompleted, At: bubbleStart}
			},
			ending: claim.EndLost, kinds: []claim.Kind{claim.KindLost, claim.KindOrphaned}, status: task.InProgress,
		},
		{
			name: "abandoned", mark: claim.Abandoned, page: written,
			due:    bubbleStart,
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "abandoned, not seen yet", mark: claim.Unseen, page: written,
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "abandoned, marked by a write that was not noted", mark: claim.Abandoned,
			page:   func(t *task.Task, c claim.Hold) { written(t, c); t.Token = "void " + t.Token },
			due:    bubbleStart,
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "abandoned, in the trash", mark: claim.Abandoned,
			page:   func(t *task.Task, c claim.Hold) { written(t, c); t.Trashed = true },
			due:    bubbleStart,
			ending: claim.EndNotGranted, status: task.InProgress,
		},
		{
			name: "voided", mark: claim.Voided,
			page:   func(t *task.Task, c claim.Hold) { written(t, c); t.Token = "void " + t.Token },
			due:    bubbleStart.Add(30 * time.Second),
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "voided, but the mark did not take", mark: claim.Voided, page: written,
			due:    bubbleStart.Add(30 * time.Second),
			ending: claim.EndNotGranted, kinds: []claim.Kind{claim.KindWithdrawn}, status: task.Open,
		},
		{
			name: "voided, and taken back by a holder", mark: claim.Voided,
			page:   func(t *task.Task, _ claim.Hold) { hold(t, "Oracle", bubbleStart) },
			due:    bubbleStart.Add(30 * time.Second),
			ending: claim.EndNotGranted, status: task.InProgress,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := left(initial(tt.state))
				if tt.claim != nil {
					tt.claim(&c)
				}
				w.Edit(page, func(t *task.Task) { tt.page(t, c) })
				_, refusal, err := d.Ledger.Reserve(w.ctx, c, bubbleStart, 0)
				if refusal != nil || err != nil {
					t.Fatal(refusal, err)
				}
				change := claim.Change{Holds: []claim.Hold{c}}
				if tt.mark != "" {
					ended := c
					ended.State, ended.Ending, ended.Ended = claim.Ended, claim.EndNotGranted, bubbleStart
					change.Holds[0] = ended
					change.Marks = []claim.Mark{{
						ID: c.ID, Why: claim.Withdrawn, Of: c.ID, Agent: c.Agent, Task: c.Task, State: tt.mark, Made: c.Reserved, Lease: c.Lease, Due: tt.due,
					}}
				}
				w.ok(d.Ledger.Save(w.ctx, change))

				w.ok(d.Restart(w.ctx))
				if got := w.record(d, c.ID).State; got == claim.Reserved || got == claim.Writing {
					t.Errorf("after Recover the claim is %s", got)
				}
				w.sync(5*time.Minute, d)
				if _, marks := w.live(d); len(marks) > 0 && marks[0].State == claim.Unseen { // what never showed is watched for a day
					time.Sleep(25 * time.Hour)
					w.sync(time.Minute, d)
				}
				if _, marks := w.live(d); len(marks) > 0 {
					t.Errorf("marks that are left: %+v", marks)
				}
				got := w.record(d, c.ID)
				if tt.held {
					if got.State != claim.Held {
						t.Errorf("the claim is %s, want held", got.State)
					}
				} else if got.State != claim.Ended || got.Ending != tt.ending {
					t.Errorf("the claim is %s, %s; want it ended as %s", got.State, got.Ending, tt.ending)
				}
				if diff := cmp.Diff(tt.kinds, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				for _, f := range d.Ledger.Events() { // the same entry, however often a finish is delivered
					if finish := f.Kind == claim.KindCompleted || f.Kind == claim.KindOrphaned; finish != (f.ID == string(c.ID)) {
						t.Errorf("the fact that it was %s is %s", f.Kind, f.ID)
					}
				}
				if got := w.Page(page).Status; got != tt.status {
					t.Errorf("the page is %s, want %s", got, tt.status)
				}
			})
		})
	}
}

// A claim verified only after its lease had ended is not granted: it may be
// overridden at any moment.
func TestVerifiedTooLate(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", func(s claim.Store) claim.Store { return &sleepy{Store: s} })
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.sync(2*time.Minute, d)
		w.none(d)
		w.claim(d, "Oracle")
	})
}

// sleepy is the store of a machine that is suspended for an hour before its
// second request for permits.
type sleepy struct {
	claim.Store
	permits int
}

func (s *sleepy) Permit(ctx context.Context, n int) (context.Context, error) {
	if s.permits++; s.permits == 2 {
		time.Sleep(time.Hour)
	}
	return s.Store.Permit(ctx, n)
}
