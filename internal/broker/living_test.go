package broker_test

import (
	"os"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
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
		if _, err := h.finish("Sandman", "", claim.EndCompleted, ""); err != nil {
			t.Error(err)
		}
	})
}
