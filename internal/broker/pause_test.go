package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
)

func (h *house) pause(who broker.Caller, agent, by string) error {
	_, err := h.Pause(h.Context(), who, &api.KeyedInput[*api.PauseRequest]{Body: &api.PauseRequest{Agent: agent, By: by}})
	return err
}

func (h *house) resume(who broker.Caller, agent string) (api.Paused, error) {
	return h.Resume(h.Context(), who, &api.KeyedInput[*api.ResumeRequest]{Body: &api.ResumeRequest{Agent: agent}})
}

// The daemon's user and root pause in anybody's name; of anybody else the kernel's word counts.
func TestInWhoseNameIsPaused(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		for _, own := range []bool{false, true} {
			if err := h.pause(broker.Caller{User: "user ada", Own: own}, "Sandman", "Maria"); err != nil {
				h.Fatal(err)
			}
			want := map[bool]string{false: "user ada", true: "Maria"}[own]
			if now, err := h.resume(broker.Caller{User: "root", Own: true}, "nobody"); err != nil || now.Pauses[0].By != want {
				h.Errorf("%+v, %v; want it by %s", now.Pauses, err, want)
			}
		}
	})
}

// What the daemon's user paused, only that user and root end, or replace by another pause.
func TestWhoEndsAPause(t *testing.T) {
	for _, agent := range []string{brake.Everybody, "Sandman", "agent-*"} {
		for n := range 8 {
			began, ends, again := n&1 != 0, n&2 != 0, n&4 != 0
			t.Run(fmt.Sprintf("%q, own %v, ended by own %v, replaced %v", agent, began, ends, again), func(t *testing.T) {
				inHouse(t, nil, nil, func(h *house) {
					if err := h.pause(broker.Caller{User: "Anna", Own: began}, agent, ""); err != nil {
						h.Fatal(err)
					}
					by, do := "", h.resume
					if again {
						by, do = "Bob", func(who broker.Caller, agent string) (api.Paused, error) {
							return api.Paused{}, h.pause(who, agent, "")
						}
					}
					want := "<nil>"
					if began && !ends {
						by, want = "Anna", "forbidden_agent"
					}
					_, err := do(broker.Caller{User: "Bob", Own: ends}, agent)
					now, _ := h.resume(nobody, "nobody")
					is := ""
					for _, p := range now.Pauses {
						is += p.By
					}
					if is != by || h.code(err) != want {
						t.Errorf("%v, and then it is paused by %q; want %s, by %q", err, is, want, by)
					}
				})
			})
		}
	}
}

// A user cannot make pauses without end: each reservation reads them all. That of everybody is
// always possible, and so is another one in place of one.
func TestPausesAreBounded(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		pause := func(agent string) string {
			return h.code(h.pause(broker.Caller{User: "user bob"}, agent, ""))
		}
		for i := range brake.MostPauses {
			if code := pause(fmt.Sprint("made up ", i)); code != "<nil>" {
				t.Fatalf("pause %d: %s", i, code)
			}
		}
		for agent, want := range map[string]string{
			"one more": "limit_reached", "and-*": "limit_reached", "made up 7": "<nil>", brake.Everybody: "<nil>",
			strings.Repeat("x", 200) + "*": "invalid_request",
		} {
			if code := pause(agent); code != want {
				t.Errorf("pausing %q: %s, want %s", agent, code, want)
			}
		}
		if _, err := h.resume(nobody, "made up 1"); err != nil {
			t.Fatal(err)
		}
		if code := pause("one more"); code != "<nil>" {
			t.Errorf("after one ended: %s", code)
		}
	})
}

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
