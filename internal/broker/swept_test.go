package broker_test

import (
	"os"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/journal"
	"dibs/internal/task"
)

// A machine wakes after its claims' leases: those whose process lives are renewed before the sweep
// takes the others for dead.
func TestSweepLeavesWhatLives(t *testing.T) {
	kept, dead := openTask(1, "Kept"), openTask(2, "Dead")
	inHouse(t, nil, []task.Task{kept, dead}, func(h *house) {
		self, err := keepers.Of(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		cl, err := h.Claim(h.Context(), broker.Caller{UID: -1, Process: self}, &api.KeyedInput[api.ClaimRequest]{Body: api.ClaimRequest{Agent: "Sandman", Task: string(kept.ID), Keeper: api.Keeper{PID: self.ID}}})
		if err != nil {
			t.Fatal(err)
		}
		h.mustClaim("Oracle", dead.ID)
		time.Sleep(2 * time.Hour) // nothing runs meanwhile
		done, err := h.Sweep(h.Context(), nobody, new(api.KeyedInput[*api.SweepRequest]))
		if err != nil || len(done.Swept) != 1 || done.Swept[0].Task != dead.ID {
			t.Errorf("swept %+v, %v; want the task of Oracle alone", done.Swept, err)
		}
		if now := h.board.Page(kept.ID); now.Status != task.InProgress || now.Token != string(cl.ID) {
			t.Errorf("the task whose process lives is %+v", now)
		}
		h.mustFinish("Sandman", "", claim.EndCompleted, "")
	})
}

// A board without a note has the reason in a comment, once, also after a restart.
func TestStuckWithoutNote(t *testing.T) {
	gone := with(openTask(1, "Gone"), is(task.Cancelled))
	tasks := []task.Task{gone, with(openTask(2, "Late"), after(gone.ID)), openTask(3, "Free")}
	furnish := func(h *house) { h.policy.NoNote, h.config.Comments = true, remarks{} }
	inHouse(t, furnish, tasks, func(h *house) {
		for turn := range 3 {
			done, err := h.Sweep(h.Context(), nobody, new(api.KeyedInput[*api.SweepRequest]))
			if err != nil || (len(done.Told) == 1) != (turn == 0) {
				h.Errorf("turn %d: %+v, %v", turn, done, err)
			}
			h.restart()
		}
		facts, err := h.journal.Facts(h.Context(), journal.FactFilter{Limit: 10})
		const want = "it can never become ready: it waits for “Gone”, which is CANCELLED; take “Gone” out of its dependencies, or reopen “Gone”"
		if err != nil || len(facts) != 1 || facts[0].Kind != claim.KindCommented || !facts[0].Comment || facts[0].By != "dibs" || facts[0].Summary != want || facts[0].Title != "Late" {
			h.Errorf("facts %+v, %v", facts, err)
		}
	})
}
