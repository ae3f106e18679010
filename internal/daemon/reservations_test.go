package daemon_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/google/go-cmp/cmp"
)

// reserve reserves patterns in the root folder, for an hour unless body says otherwise.
func (n *node) reserve(agent string, body api.ReserveRequest, patterns ...string) (api.Reservation, error) {
	n.w.Helper()
	body.Agent = agent
	return n.Reserve(n.w.Context(), "/nowhere", patterns, body, "")
}

// reservedBy returns who keeps an agent from a path; empty for nobody.
func (n *node) reservedBy(agent, path string) string {
	n.w.Helper()
	_, err := n.MayTouch(n.w.Context(), agent, "/nowhere", path)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Code(claim.CodeReserved) {
		return p.Holder
	}
	if err != nil {
		n.w.Fatal(err)
	}
	return ""
}

// TestWhatReservationsCost counts one row in the mesh log for a minute's reservations, and no other
// request. They work without Notion.
func TestWhatReservationsCost(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(quiet)
		cost := func(what string, do func(), want ...string) {
			w.Helper()
			w.notion.ResetRequests()
			do()
			time.Sleep(2 * time.Minute)
			if diff := cmp.Diff(want, w.requests()); diff != "" {
				w.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		var made api.Reservation
		cost("reserving", func() {
			var err error
			if made, err = n.reserve("Sandman", api.ReserveRequest{}, "./src/", "name:db"); err != nil {
				w.Fatal(err)
			}
		}, "POST pages")
		cost("refusals, questions and renewals", func() {
			for range 10 {
				if _, err := n.reserve("Oracle", api.ReserveRequest{}, "./src/a.go"); code(err) != denied(claim.CodeReserved) {
					w.Errorf("err = %v, want reserved", err)
				}
				if got := n.reservedBy("Oracle", "src/a.go"); got != "Sandman" {
					w.Errorf("src/a.go is %q's", got)
				}
				if _, err := n.reserve("Sandman", api.ReserveRequest{}, "./src/", "name:db"); err != nil {
					w.Error(err)
				}
				if _, err := client.Do(w.Context(), n.Client, api.OpReservations, api.ListReservationsInput{}); err != nil {
					w.Error(err)
				}
			}
		})
		cost("giving back", func() {
			if _, err := n.Unreserve(w.Context(), made.ID, "Sandman"); err != nil {
				w.Error(err)
			}
		})
		cost("many", func() {
			for _, pattern := range []string{"./a", "./b", "./c", "./d"} {
				if _, err := n.reserve("Sandman", api.ReserveRequest{}, pattern); err != nil {
					w.Error(err)
				}
			}
		}, "POST pages", "POST pages")
		var titles []string
		for _, p := range w.notion.Pages(w.notion.Databases().MeshLog) {
			titles = append(titles, p.Text("Name"))
		}
		slices.Sort(titles)
		if diff := cmp.Diff([]string{
			"Sandman made 3 more reservations", "Sandman reserved ./a in /nowhere", "Sandman reserved ./src/, name:db in /nowhere",
		}, titles); diff != "" {
			w.Errorf("the mesh log (-want +got):\n%s", diff)
		}
	})
}

// TestReservationsOfAClaim checks that a claim's reservations survive a restart, and end when a
// person ends the claim in Notion.
func TestReservationsOfAClaim(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		if _, err := n.reserve("Sandman", api.ReserveRequest{Claim: string(cl.ID)}, "./src/"); err != nil {
			w.Fatal(err)
		}
		n.stop()
		n = w.start(o)
		if got := n.reservedBy("Oracle", "src/a"); got != "Sandman" {
			w.Errorf("src/a is %q's after a restart", got)
		}
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Maria")})
		time.Sleep(2 * time.Minute)
		if got := n.reservedBy("Oracle", "src/a"); got != "" {
			w.Errorf("src/a is still %s's", got)
		}
	})
}
