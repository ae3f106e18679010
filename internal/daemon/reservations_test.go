package daemon_test

import (
	"slices"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// reserve reserves patterns in the root folder, for an hour unless body says otherwise.
func (n *node) reserve(agent string, body api.ReserveRequest, patterns ...string) (api.Reservation, error) {
	n.w.Helper()
	body.Agent = agent
	return n.Reserve(n.w.Context(), "/nowhere", patterns, body, "")
}

// A reservation costs one row in the mesh log, and nothing else does: not refusals, questions,
// renewals and its end.
func TestWhatReservationsCost(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(quiet)
		w.notion.ResetRequests()
		var made api.Reservation
		for range 10 {
			var err error
			made, err = n.reserve("Sandman", api.ReserveRequest{}, "./src/", "name:db")
			mustDo(w, err)
			if _, err := n.reserve("Oracle", api.ReserveRequest{}, "./src/a.go"); code(err) != denied(claim.CodeReserved) {
				w.Errorf("err = %v, want reserved", err)
			}
			if _, err := n.MayTouch(w.Context(), "Oracle", "/nowhere", "src/a.go"); code(err) != denied(claim.CodeReserved) {
				w.Errorf("may Oracle touch it: %v", err)
			}
		}
		_, err := n.Unreserve(w.Context(), made.ID, "Sandman")
		mustDo(w, err)
		time.Sleep(2 * time.Minute)
		rows := w.notion.Pages(w.notion.Databases().MeshLog)
		if got := w.requests(); !slices.Equal(got, []string{"POST pages"}) || rows[0].Text("Name") != "Sandman reserved ./src/, name:db in /nowhere" {
			w.Errorf("that cost %q, for %+v", got, rows)
		}
	})
}
