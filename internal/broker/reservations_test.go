package broker_test

import (
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// inSrc is where a file or a folder of a repository is.
func inSrc(path string) []api.Spot { return []api.Spot{{In: "/repo/.git", Path: "/" + path}} }

// reserve reserves a pattern of a repository until the end of a claim.
func (h *house) reserve(agent, pattern string, of api.Claim) (api.Reserved, error) {
	return h.Reserve(h.Context(), nobody, &api.KeyedInput[api.ReserveRequest]{Body: api.ReserveRequest{
		Agent: agent, Targets: []api.ReserveTarget{{Pattern: pattern, At: inSrc(pattern)}}, Claim: string(of.ID),
	}})
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
					_, err := h.Check(h.Context(), nobody, &api.CheckInput{Body: api.CheckRequest{Agent: "Oracle", Targets: []api.CheckTarget{{Path: "src/a", At: inSrc("src/a")}}}})
					if (err == nil) != want || err != nil && (h.code(err) != string(claim.CodeReserved) || h.Problem(err).Holder != "Sandman") {
						h.Errorf("src/a: %v, want it free: %v", err, want)
					}
				}
				cl := h.mustClaim("Sandman", "")
				got, err := h.reserve("Sandman", "src/**", cl)
				if made := got.Reservation; err != nil || made.ClaimID != cl.ID || made.ExpiresAt.Before(cl.ExpiresAt.Time) || made.ExpiresAt.After(cl.ExpiresAt.Add(2*time.Minute)) {
					h.Fatalf("reserved %+v, %v for a claim until %v", made, err, cl.ExpiresAt)
				}
				if _, err := h.reserve("Oracle", "doc/**", cl); h.code(err) != string(api.CodeClaimLost) {
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
