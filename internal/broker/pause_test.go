package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
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
