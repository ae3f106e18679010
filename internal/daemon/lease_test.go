package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
)

// TestWaitingLeavesNoTrace waits for unavailable tasks, and counts what is left.
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

func TestRefusalIsNoOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(quiet)
		w.notion.Inject(emulator.Fault{Method: "GET", Kind: emulator.Blocked429})
		if _, err := n.claim("Sandman", id); code(err) != string(api.CodeNotionRefused) {
			w.Errorf("err = %v, want notion_refused", err)
		}
	})
}

// TestLongestLease has a card ask for a lease of a year: it is one of a day. An agent may ask for its
// claim to be kept that long; its lease is still the page's.
func TestLongestLease(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		card, plain := w.add("card", map[string]any{"claim_timeout_minutes": number(525600)}), w.add("plain", nil)
		n := w.daemon(func(c *config.Config) { quiet(c); c.Claim.MaxLifetime = 500 * 24 * time.Hour })
		cl := n.mustClaim("Sandman", card)
		if lasts := time.Until(cl.ExpiresAt.Time); lasts > 24*time.Hour || lasts < 23*time.Hour || !cl.KeptUntil.IsZero() {
			w.Errorf("it lasts %v, and is kept until %v; want a day", lasts, cl.KeptUntil)
		}
		cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", Task: plain, TimeoutMinutes: 525600}, "")
		if kept := time.Until(cl.KeptUntil.Time); err != nil || time.Until(cl.ExpiresAt.Time) > 30*time.Minute || kept < 364*24*time.Hour {
			w.Errorf("it expires at %v, and is kept for %v, %v; want the lease, and a year", cl.ExpiresAt, kept, err)
		}
		time.Sleep(25 * time.Hour)
		if all, err := n.Claims(w.Context(), ""); err != nil || len(all.Claims) != 1 || all.Claims[0].ID != cl.ID {
			w.Errorf("held after a day: %+v, %v; want the claim of Oracle", all.Claims, err)
		}
	})
}

// A claim is kept for as long as its agent asked for, with leases that are renewed, and then given back:
// whoever waits gets the task at once, and the agent is told.
func TestKeptUntil(t *testing.T) {
	t.Parallel()
	for _, minutes := range []int{5, 90} {
		inWorld(t, 0, func(w *world) {
			id := w.add("work", nil)
			n := w.daemon(quiet)
			cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: id, TimeoutMinutes: minutes}, "")
			if kept := cl.KeptUntil.Sub(cl.ClaimedAt.Time); err != nil || kept != time.Duration(minutes)*time.Minute || cl.ExpiresAt.After(cl.KeptUntil.Time) {
				w.Errorf("it is kept for %v, and expires at %v, %v", kept, cl.ExpiresAt, err)
			}
			time.Sleep(time.Until(cl.KeptUntil.Time) - time.Second)
			if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
				w.Errorf("just before: %v, want held", err)
			}
			got, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Oracle", Task: id, WaitSeconds: 60}, "")
			if after := time.Since(cl.KeptUntil.Time); err != nil || got.Override || after > 35*time.Second { // the allowance, until who waits looks again, and the settle wait
				w.Errorf("%v after: %+v, %v", after, got, err)
			}
			if err := n.complete(cl); code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "dibs took the task back: nothing was heard of Sandman for") {
				w.Errorf("complete: %v, want claim_lost, and why", err)
			}
			if got := w.page(id).Number("claim_timeout_minutes"); got != 0 {
				w.Errorf("the page has a lease of %v minutes", got)
			}
		})
	}
}
