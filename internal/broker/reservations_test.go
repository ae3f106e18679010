package broker_test

import (
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// inSrc is a file or a folder of a repository.
func inSrc(path string) []reserve.Target {
	return []reserve.Target{{Text: path, At: []reserve.Spot{{Place: "/repo/.git", Path: "/" + path}}}}
}

// What is reserved for a claim ends with it, however it ends, and across restarts.
func TestReservationsOfAClaim(t *testing.T) {
	ends := func(as claim.Ending) func(*house, api.Claim) {
		return func(h *house, cl api.Claim) {
			if _, err := h.finish("Sandman", string(cl.ID), as, ""); err != nil {
				h.Fatal(err)
			}
		}
	}
	for name, end := range map[string]func(*house, api.Claim){
		"completed": ends(claim.EndCompleted), "released": ends(claim.EndReleased), "lost": (*house).take, "not renewed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, pair(), func(h *house) {
				free := func(want bool) {
					h.Helper()
					_, err := h.CheckReserved(h.Context(), "Oracle", "", inSrc("src/a"))
					if (err == nil) != want || err != nil && (h.code(err) != string(claim.CodeReserved) || h.Problem(err).Holder != "Sandman") {
						h.Errorf("src/a: %v, want it free: %v", err, want)
					}
				}
				cl := h.mustClaim("Sandman", "")
				of := broker.Ref{Claim: string(cl.ID), Agent: "Sandman"}
				got, err := h.Reserve(h.Context(), reserve.Request{Agent: "Sandman", Targets: inSrc("src/**")}, of)
				if made := got.Reservation; err != nil || made.ClaimID != cl.ID || made.ExpiresAt.Before(cl.ExpiresAt.Time) || made.ExpiresAt.After(cl.ExpiresAt.Add(2*time.Minute)) {
					h.Fatalf("reserved %+v, %v for a claim until %v", made, err, cl.ExpiresAt)
				}
				of.Agent = "Oracle"
				if _, err := h.Reserve(h.Context(), reserve.Request{Agent: "Oracle", Targets: inSrc("doc/**")}, of); h.code(err) != string(api.CodeClaimLost) {
					h.Errorf("Oracle reserved something for Sandman's claim: %v", err)
				}
				h.restart()
				free(false)
				if end == nil {
					time.Sleep(time.Until(got.Reservation.ExpiresAt.Add(2 * time.Second)))
				} else {
					end(h, cl)
					time.Sleep(2 * time.Second)
				}
				free(true)
				if n := h.logged(claim.KindUnreserved); n != 1 {
					h.Errorf("%d ends on record, want 1", n)
				}
			})
		})
	}
}
