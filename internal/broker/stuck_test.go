package broker_test

import (
	"context"
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"
)

// remarks is a board on which comments are made.
type remarks struct{}

func (remarks) On() bool { return true }

func (remarks) People(context.Context, bool) ([]broker.Person, error) { return nil, nil }

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
