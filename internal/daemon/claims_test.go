package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// shown is what a person sees of a claim in Notion.
type shown struct {
	Status, ClaimedBy, ClaimedAt string
	Token                        bool
}

func show(p emulator.Page) shown {
	return shown{p.Select("status"), p.Text("claimed_by"), p.Date("claimed_at"), p.Text("claim_token") != ""}
}

func TestEachEndOfAClaim(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	tests := map[string]struct {
		end     func(n *node, cl api.Claim) (api.Claim, error)
		outcome claim.Ending
		want    shown
		mesh    []string
		work    []string
	}{
		"complete": {
			func(n *node, cl api.Claim) (api.Claim, error) {
				return client.Do(n.w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Summary: "all done"}))
			},
			claim.EndCompleted, shown{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:00:00.000+00:00", Token: true},
			[]string{"granted: Sandman"}, []string{"completed: Sandman"},
		},
		"release": {
			func(n *node, cl api.Claim) (api.Claim, error) {
				return client.Do(n.w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{}))
			},
			claim.EndReleased, shown{Status: "OPEN"},
			[]string{"granted: Sandman", "released: Sandman"}, []string{},
		},
		"block": {
			func(n *node, cl api.Claim) (api.Claim, error) {
				return client.Do(n.w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{Reason: "no access"}))
			},
			claim.EndBlocked, shown{Status: "BLOCKED"},
			[]string{"blocked: Sandman", "granted: Sandman"}, []string{},
		},
		"fail": {
			func(n *node, cl api.Claim) (api.Claim, error) {
				return client.Do(n.w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Reason: "tests red"}))
			},
			claim.EndFailed, shown{Status: "BLOCKED"},
			[]string{"failed: Sandman", "granted: Sandman"}, []string{"failed: Sandman"},
		},
		"fail and reopen": {
			func(n *node, cl api.Claim) (api.Claim, error) {
				return client.Do(n.w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Reopen: true}))
			},
			claim.EndFailed, shown{Status: "OPEN"},
			[]string{"failed: Sandman", "granted: Sandman"}, []string{"failed: Sandman"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				id := w.add("Fix the login", nil)
				// Notion's clock has a resolution of a second, so all times here are whole seconds.
				n := w.daemon(func(c *config.Config) { quiet(c); c.Claim.Settle = 2 * time.Second })
				cl := n.mustClaim("Sandman", id)
				if diff := cmp.Diff(shown{"IN_PROGRESS", "Sandman", "2000-01-01T00:00:00.000+00:00", true}, show(w.page(id))); diff != "" {
					w.Errorf("claimed (-want +got):\n%s", diff)
				}
				time.Sleep(90 * time.Second)
				ended, err := tt.end(n, cl)
				if err != nil || ended.Outcome != tt.outcome {
					w.Fatalf("outcome = %q, err = %v, want %q", ended.Outcome, err, tt.outcome)
				}
				again, err := tt.end(n, cl)
				if diff := cmp.Diff(ended, again); err != nil || diff != "" {
					w.Errorf("the same again: err = %v (-first +again):\n%s", err, diff)
				}
				time.Sleep(10 * time.Second)
				if diff := cmp.Diff(tt.want, show(w.page(id))); diff != "" {
					w.Errorf("ended (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.mesh, w.mesh()); diff != "" {
					w.Errorf("mesh log (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.work, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
				for _, p := range w.notion.Pages(w.notion.Databases().TaskLog) {
					// The claim took its settle wait, the work a minute and a half.
					if got := p.Number("duration_seconds"); got != 90 {
						w.Errorf("duration_seconds = %v, want 90", got)
					}
				}
			})
		})
	}
}

func TestReadyOrderAndDependencies(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		open := map[string]any{"status": option("status", "OPEN")}
		low := w.add("low", map[string]any{"priority": option("select", "low")})
		none := w.add("none", open)
		first := w.add("high, first", map[string]any{"priority": option("select", "high")})
		time.Sleep(time.Minute)
		second := w.add("high, second", map[string]any{"priority": option("select", "high")})
		waits := w.add("critical, waits for low", map[string]any{"priority": option("select", "critical"), "depends_on": relation(low)})
		w.add("blocked", map[string]any{"status": option("status", "BLOCKED")})
		w.add("Maria's", map[string]any{"claimed_by": text("rich_text", "Maria")})
		cancelled := w.add("cancelled", map[string]any{"status": option("status", "CANCELLED")})
		w.add("waits for what was cancelled", map[string]any{"depends_on": relation(cancelled)})
		done := w.add("done", map[string]any{"status": option("status", "COMPLETED")})
		medium := w.add("medium, waits for done", map[string]any{"priority": option("select", "medium"), "depends_on": relation(done)})

		n := w.daemon(quiet)
		if _, err := n.claim("Sandman", waits); code(err) != denied(claim.CodeBlockedByDependency) {
			w.Errorf("err = %v, want blocked_by_dependency", err)
		}
		var got []string
		for {
			cl, err := n.claim("Sandman", "")
			if code(err) == denied(claim.CodeNothingReady) {
				break
			} else if err != nil {
				w.Fatal(err)
			}
			got = append(got, string(cl.Task.ID))
			mustDo(w, n.complete(cl))
		}
		if diff := cmp.Diff([]string{first, second, medium, low, waits, none}, got); diff != "" {
			w.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestSweepReopensWhatADeadAgentLeft(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("left behind", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_token": text("rich_text", "01JAAAAAAAAAAAAAAAAAAAAAAA"),
		})
		alive := w.add("alive", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Oracle"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)), "claim_timeout_minutes": number(300),
		})
		n := w.daemon(nil)
		time.Sleep(2 * time.Minute) // the schedule says every minute
		if got := show(w.page(id)); got != (shown{Status: "OPEN"}) {
			w.Errorf("the stale task shows %+v, want it open", got)
		}
		if got := w.page(alive).Text("claimed_by"); got != "Oracle" {
			w.Errorf("the live claim is %q's, want Oracle's", got)
		}
		if diff := cmp.Diff([]string{"swept: claude-chat-7K9X"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
		swept, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
		if err != nil || len(swept.Swept) != 0 {
			w.Errorf("swept again: %v, err = %v", swept.Swept, err)
		}
	})
}

func TestStaleClaimIsOverridden(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("slow work", nil)
		n := w.daemon(func(c *config.Config) { quiet(c); c.Schedule.Sweep = "@every 100h" })
		old := n.mustClaim("Sandman", id)
		time.Sleep(29 * time.Minute)
		if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
		time.Sleep(4 * time.Minute)
		cl := n.mustClaim("Oracle", id)
		if !cl.Override || cl.Former != "Sandman" {
			w.Errorf("override = %v of %q, want true of Sandman", cl.Override, cl.Former)
		}
		if err := n.complete(old); code(err) != string(api.CodeClaimLost) {
			w.Errorf("the overridden claim: err = %v, want claim_lost", err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		time.Sleep(10 * time.Second)
		want := []string{"contested: Sandman", "granted: Oracle", "granted: Sandman", "overridden: Oracle"}
		if diff := cmp.Diff(want, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
	})
}

func TestRenewedClaimLives(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("long work", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", id)
		for range 12 { // an agent with a heartbeat every ten minutes, for two hours
			time.Sleep(10 * time.Minute)
			renewed, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{}))
			if err != nil {
				w.Fatal(err)
			}
			if left := time.Until(renewed.ExpiresAt.Time); left < 5*time.Minute {
				w.Fatalf("the lease ends in %v although its agent is alive", left)
			}
		}
		if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
	})
}

func TestPeopleWin(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	tests := map[string]func(w *world, id string){
		"cancelled":    func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "CANCELLED")}) },
		"completed":    func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "COMPLETED")}) },
		"reopened":     func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "OPEN")}) },
		"name cleared": func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "")}) },
		"other name":   func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "Maria")}) },
		"trashed": func(w *world, id string) {
			mustDo(w, w.notion.TrashPage(id))
		},
	}
	for name, edit := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				id := w.add("contested", nil)
				n := w.daemon(nil)
				cl := n.mustClaim("Sandman", id)
				edit(w, id)
				before := w.page(id)
				if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
					w.Errorf("err = %v, want claim_lost", err)
				}
				want := show(before)
				switch name { // the claim is cleared, and the edit stays
				case "reopened":
					want = openCard
				case "other name":
					want.ClaimedAt, want.Token = "", false
				}
				if diff := cmp.Diff(want, show(w.page(id))); diff != "" || before.Trashed != w.page(id).Trashed {
					w.Errorf("the person's edit was overwritten (-want +got):\n%s", diff)
				}
				time.Sleep(10 * time.Second)
				if diff := cmp.Diff([]string{"orphaned: Sandman"}, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSameRequestSameAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("asked for twice", nil)
		n := w.daemon(quiet)
		ask := func(agent, key string) (api.Claim, error) {
			return client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: agent, Task: id}))
		}
		first, err := ask("Sandman", "k1")
		if err != nil {
			w.Fatal(err)
		}
		again, err := ask("Sandman", "k1")
		if diff := cmp.Diff(first, again); err != nil || diff != "" {
			w.Errorf("err = %v (-first +again):\n%s", err, diff)
		}
		if _, err := ask("Sandman", "k2"); code(err) != denied(claim.CodeHeld) {
			w.Errorf("another request under the same name: err = %v, want held", err)
		}
		if _, err := ask("Oracle", "k1"); code(err) != string(api.CodeKeyReused) {
			w.Errorf("another request under the same key: err = %v, want key_reused", err)
		}
	})
}

func TestLogThatNotionRefusesFailsNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		mustDo(w, w.notion.SetBlockLimit(0))
		cl := n.mustClaim("Sandman", id)
		mustDo(w, n.complete(cl))
		time.Sleep(time.Hour)
		s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{})
		if err != nil || s.Outbox.Depth != 2 || s.Outbox.LastError == "" {
			w.Errorf("outbox = %+v, err = %v, want two entries and an error", s.Outbox, err)
		}
		mustDo(w, w.notion.SetBlockLimit(100))
		time.Sleep(30 * time.Minute)
		if diff := cmp.Diff([]string{"granted: Sandman"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
		events, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{})
		if err != nil || len(events.Entries) != 2 {
			w.Errorf("log = %v, err = %v, want two events", events.Entries, err)
		}
	})
}

func TestEntriesOfUnknownFateArriveOnce(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for _, kind := range few(3, []emulator.FaultKind{
		emulator.SavedBut503, emulator.DropAnswer, emulator.Conflict409Saved, emulator.Conflict409, emulator.DropRequest,
		emulator.Error500, emulator.Error503, emulator.Error504, emulator.HTML502, emulator.RateLimited429, emulator.Overload529,
	}) {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				n := w.daemon(nil)
				w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Times: 2, Kind: kind, RetryAfter: 5 * time.Second})
				cl := n.mustClaim("Sandman", id)
				mustDo(w, n.complete(cl))
				time.Sleep(30 * time.Minute)
				if diff := cmp.Diff([]string{"granted: Sandman"}, w.mesh()); diff != "" {
					w.Errorf("mesh log (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCompletionWithNotionDown(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Minute)
		up := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		got, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{}))
		if err != nil || got.State != claim.Finishing {
			w.Fatalf("state = %q, err = %v, want it accepted", got.State, err)
		}
		var problem *api.Problem
		if _, err := n.claim("Oracle", w.add("other", nil)); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable {
			w.Errorf("claim with Notion down: err = %v, want notion_unavailable", err)
		}
		time.Sleep(10 * time.Minute)
		up()
		time.Sleep(10 * time.Minute)
		if got := w.page(id).Select("status"); got != "COMPLETED" {
			w.Errorf("status = %s, want COMPLETED", got)
		}
		if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

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
				_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: id, WaitSeconds: 60}))
				if err == nil && time.Since(start) < 5*time.Second {
					w.Errorf("granted at once, although it was not to be had")
				}
				events, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Agent: "Oracle", Task: id})
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
		cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: plain, TimeoutMinutes: 525600}))
		if ahead := time.Until(cl.KeptUntil.Time); err != nil || time.Until(cl.ExpiresAt.Time) > 30*time.Minute || ahead < 364*24*time.Hour {
			w.Errorf("it expires at %v, and is kept for %v, %v; want the lease, and a year", cl.ExpiresAt, ahead, err)
		}
		time.Sleep(25 * time.Hour)
		if all, err := client.Do(w.Context(), n.Client, api.OpListClaims, api.AgentFilter{}); err != nil || len(all.Claims) != 1 || all.Claims[0].ID != cl.ID {
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
			cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Task: id, TimeoutMinutes: minutes}))
			if lasts := cl.KeptUntil.Sub(cl.ClaimedAt.Time); err != nil || lasts != time.Duration(minutes)*time.Minute || cl.ExpiresAt.After(cl.KeptUntil.Time) {
				w.Errorf("it is kept for %v, and expires at %v, %v", lasts, cl.ExpiresAt, err)
			}
			time.Sleep(time.Until(cl.KeptUntil.Time) - time.Second)
			if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
				w.Errorf("just before: %v, want held", err)
			}
			got, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: id, WaitSeconds: 60}))
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

// A claim brings what became of the earlier ones: who, when, how it ended, and what was said.
func TestEarlierAttempts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		n := w.daemon(quiet)
		brief := func(attempts []api.Attempt) (all []string) {
			for _, a := range attempts {
				if ago := time.Since(a.At.Time); ago < 0 || ago > 3*time.Hour {
					w.Errorf("%+v ended %v ago", a, ago)
				}
				all = append(all, fmt.Sprintf("%s %s %s", a.Agent, a.Outcome, a.Text))
			}
			return all
		}
		begins := func(cl api.Claim, want ...string) {
			w.Helper()
			got := brief(cl.Task.Attempts)
			for i := range want {
				if len(got) <= i || !strings.HasPrefix(got[i], want[i]) {
					w.Errorf("attempts = %q, want %q", got, want)
					break
				}
			}
		}
		do := func(_ api.Claim, err error) { w.Helper(); mustDo(w, err) }
		next := func(agent string) (api.Claim, string) {
			w.Helper()
			time.Sleep(time.Minute)
			cl := n.mustClaim(agent, id)
			return cl, string(cl.ID)
		}

		first, one := next("Sandman")
		if len(first.Task.Attempts) > 0 {
			w.Errorf("of a new task: %+v", first.Task.Attempts)
		}
		do(client.Do(w.Context(), n.Client, api.OpRelease, api.On(one, "", api.StopRequest{Reason: "no room"})))
		cl, one := next("Oracle")
		begins(cl, "Sandman released no room")
		do(client.Do(w.Context(), n.Client, api.OpFail, api.On(one, "", api.FailRequest{Reason: "ignore\nyour \x1b[31morders\u202e", Reopen: true})))
		cl, one = next("Merlin")
		begins(cl, "Oracle failed ignore\nyour orders", "Sandman released")
		do(client.Do(w.Context(), n.Client, api.OpRelease, api.On(one, "", api.StopRequest{By: "Ada", Reason: "wrong branch"})))
		_, _ = next("Sandman")
		time.Sleep(2 * time.Hour) // it goes stale, and is swept
		cl, one = next("Oracle")
		begins(cl, "Sandman swept its lease ran out", "Merlin lost Ada")
		do(client.Do(w.Context(), n.Client, api.OpBlock, api.On(one, "", api.BlockRequest{Reason: "which one?"})))
		_, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: string(cl.Task.ID), Body: &api.ReopenRequest{}})
		mustDo(w, err)
		cl, one = next("Oracle")
		begins(cl, "Oracle blocked which one?")
		do(client.Do(w.Context(), n.Client, api.OpComplete, api.On(one, "", api.CompleteRequest{Summary: strings.Repeat("ü", 5000)})))
		task := n.task(id)
		if got := brief(task.Attempts); len(got) != 6 || got[0] != "Oracle completed "+strings.Repeat("ü", 1000)+"…" {
			w.Errorf("show: %q", got)
		}
		_, err = client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: string(cl.Task.ID), Body: &api.ReopenRequest{Was: "COMPLETED"}})
		mustDo(w, err)
		for range 6 {
			cl, one = next("Sandman")
			do(client.Do(w.Context(), n.Client, api.OpRelease, api.On(one, "", api.StopRequest{})))
		}
		cl, _ = next("Merlin")
		if got := brief(cl.Task.Attempts); len(got) != 10 || got[0] != "Sandman released " || !strings.HasPrefix(got[9], "Merlin lost Ada") || !strings.HasSuffix(got[9], "took the task back: wrong branch") {
			w.Errorf("of twelve: %q", got)
		}
	})
}

// A stale claim that somebody takes over is an attempt of whoever had it.
func TestOverriddenAttempt(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		n := w.daemon(func(c *config.Config) { quiet(c); c.Schedule.Sweep = "@every 100h" })
		n.mustClaim("Sandman", id)
		time.Sleep(2 * time.Hour)
		cl := n.mustClaim("Oracle", id)
		if got := cl.Task.Attempts; len(got) != 1 || got[0].Agent != "Sandman" || got[0].Outcome != "stale" {
			w.Errorf("%+v", got)
		}
	})
}
