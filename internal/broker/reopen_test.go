package broker_test

import (
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// An agent may open a task that nobody holds, and no more; people, in no agent's name, decide the
// rest.
func TestAgentsOnlyOpen(t *testing.T) {
	for _, agent := range []string{"", "Sandman"} {
		for _, to := range claim.ToStatuses() {
			t.Run(agent+" "+string(to), func(t *testing.T) {
				failed := openTask(1, "First")
				failed.Status = task.Failed
				inHouse(t, nil, []task.Task{failed}, func(h *house) {
					_, err := h.Reopen(h.Context(), broker.Caller{User: "user maria"}, &api.ReopenInput{ID: string(failed.ID), Body: &api.ReopenRequest{Agent: agent, Was: "failed", Status: string(to)}})
					want, code := to, "<nil>"
					if agent != "" && to != task.Open {
						want, code = task.Failed, string(api.CodeInvalidRequest)
					}
					if now := h.board.Page(failed.ID); now.Status != want || h.code(err) != code {
						t.Errorf("answered %v, and the task is %s; want %s, %s", err, now.Status, code, want)
					}
				})
			})
		}
	}
}
