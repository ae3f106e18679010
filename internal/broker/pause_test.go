package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"dibs/internal/broker"
	"dibs/internal/claim/brake"
)

// What the daemon's user paused, only that user and root end, or replace by another pause.
func TestWhoEndsAPause(t *testing.T) {
	for _, agent := range []string{brake.Everybody, "Sandman", "agent-*"} {
		for n := range 8 {
			began, ends, again := n&1 != 0, n&2 != 0, n&4 != 0
			t.Run(fmt.Sprintf("%q, own %v, ended by own %v, replaced %v", agent, began, ends, again), func(t *testing.T) {
				inHouse(t, nil, nil, func(h *house) {
					if _, err := h.Pause(h.Context(), broker.Pausing{Agent: agent, By: "Anna", Own: began}); err != nil {
						h.Fatal(err)
					}
					by, do := "", h.Resume
					if again {
						by, do = "Bob", h.Pause
					}
					want := "<nil>"
					if began && !ends {
						by, want = "Anna", "forbidden_agent"
					}
					_, err := do(h.Context(), broker.Pausing{Agent: agent, By: "Bob", Own: ends})
					now, _ := h.Resume(h.Context(), broker.Pausing{Agent: "nobody"})
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
			_, err := h.Pause(h.Context(), broker.Pausing{Agent: agent, By: "user bob"})
			return h.code(err)
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
		if _, err := h.Resume(h.Context(), broker.Pausing{Agent: "made up 1"}); err != nil {
			t.Fatal(err)
		}
		if code := pause("one more"); code != "<nil>" {
			t.Errorf("after one ended: %s", code)
		}
	})
}
