package daemon_test

import (
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/emulator"
	"dibs/internal/task"
)

func TestRequestedLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]float64{"of the task": 45, "none": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				props := map[string]any{}
				if own > 0 {
					props["claim_timeout_minutes"] = number(own)
				}
				id := w.add("long work", props)
				n := w.daemon(quiet)
				defer n.stop()
				for _, end := range []func(cl api.Claim) error{
					func(cl api.Claim) error {
						_, err := n.Release(w.Context(), string(cl.ID), api.StopRequest{}, "")
						return err
					},
					n.complete,
				} {
					cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: id, TimeoutMinutes: 300}, "")
					if err != nil {
						w.Fatal(err)
					}
					if got := cl.ExpiresAt.Sub(cl.ClaimedAt.Time); got != 5*time.Hour {
						w.Errorf("the lease is %v, want 5h", got)
					}
					if got := w.page(id).Number("claim_timeout_minutes"); got != 300 {
						w.Errorf("claim_timeout_minutes = %v while claimed, want 300, for others to see", got)
					}
					if err := end(cl); err != nil {
						w.Fatal(err)
					}
					if got := w.page(id).Number("claim_timeout_minutes"); got != own {
						w.Errorf("claim_timeout_minutes = %v afterwards, want %v", got, own)
					}
				}
			})
		})
	}
}

func TestPersonsLeaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("long work", nil)
		n := w.daemon(quiet)
		defer n.stop()
		cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: id, TimeoutMinutes: 300}, "")
		if err != nil {
			w.Fatal(err)
		}
		w.edit(id, map[string]any{"claim_timeout_minutes": number(90)})
		if err := n.complete(cl); err != nil {
			w.Fatal(err)
		}
		if got := w.page(id).Number("claim_timeout_minutes"); got != 90 {
			w.Errorf("claim_timeout_minutes = %v, want 90 as the person set it", got)
		}
	})
}

func TestLeaseBeyondTheLongestLifeIsRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("endless work", nil)
		n := w.daemon(quiet)
		defer n.stop()
		_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: id, TimeoutMinutes: 24*60 + 1}, "")
		if code(err) != string(api.CodeInvalidRequest) {
			w.Errorf("err = %v, want invalid_request", err)
		}
	})
}

// TestWaitingLeavesNoTrace waits for what is not to be had, and counts.
func TestWaitingLeavesNoTrace(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world, n *node, id string){
		"a claim under way": func(w *world, n *node, id string) {
			w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.DelayAnswer, Delay: 8 * time.Second})
			go n.claim("Sandman", id)
			time.Sleep(time.Second)
		},
		"a claim that is held": func(w *world, n *node, id string) { n.mustClaim("Sandman", id) },
		"Notion is gone":       func(w *world, _ *node, _ string) { w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest}) },
	}
	for name, obstruct := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				id := w.add("wanted", nil)
				n := w.daemon(nil)
				defer n.stop()
				obstruct(w, n, id)
				start := time.Now()
				_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", Task: id, WaitSeconds: 60}, "")
				if err == nil && time.Since(start) < 5*time.Second {
					w.Errorf("granted at once, although it was not to be had")
				}
				events, err := n.Log(w.Context(), api.LogFilter{Agent: "Oracle", Task: task.ID(id)})
				if err != nil || len(events.Entries) > 8 {
					w.Errorf("%d events after a minute's wait, err = %v; want a few", len(events.Entries), err)
				}
			})
		})
	}
}

func TestWaitingForWhatIsFinishedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("done", map[string]any{"status": option("status", "COMPLETED")})
		n := w.daemon(quiet)
		defer n.stop()
		start := time.Now()
		_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", Task: id, WaitSeconds: 600}, "")
		if code(err) != denied(claim.CodeNotOpen) || time.Since(start) > time.Minute {
			w.Errorf("err = %v after %v, want not_open at once", err, time.Since(start))
		}
	})
}

func TestRefusalIsNoOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(quiet)
		defer n.stop()
		w.notion.Inject(emulator.Fault{Method: "GET", Kind: emulator.Blocked429})
		if _, err := n.claim("Sandman", id); code(err) != string(api.CodeNotionRefused) {
			w.Errorf("err = %v, want notion_refused", err)
		}
	})
}
