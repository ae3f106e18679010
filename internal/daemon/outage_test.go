package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// outages are the ways in which Notion fails for an hour.
func outages() map[string]emulator.Fault {
	return map[string]emulator.Fault{
		"unreachable":  {Kind: emulator.DropRequest},
		"answers 503":  {Kind: emulator.Error503},
		"the edge":     {Kind: emulator.HTML502},
		"never ending": {Kind: emulator.Delay, Delay: 20 * time.Second}, // longer than a request may take
		"rate limited": {Kind: emulator.RateLimited429, RetryAfter: time.Hour},
	}
}

// The first agent to meet a hanging Notion waits for one request, and little more.
func TestFirstRefusalOfANotionThatHangs(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"next": false, "a task": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				var id string
				for i := range 4 {
					id = w.add(fmt.Sprint("Task ", i), nil)
				}
				if !keep {
					id = ""
				}
				n := w.daemon(func(c *config.Config) { c.Sync.Interval = 10 * time.Minute })
				time.Sleep(time.Minute)
				w.notion.Inject(emulator.Fault{Kind: emulator.Delay, Delay: time.Hour})
				start := time.Now()
				_, err := n.claim("Sandman", id)
				if took := time.Since(start); code(err) != denied(claim.CodeNotionUnavailable) || took > 15*time.Second {
					w.Errorf("err = %v after %v, want notion_unavailable within 15s", err, took)
				}
			})
		})
	}
}

func TestAnHourWithoutNotion(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, fault := range fewOf(2, outages()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				open := w.add("open", map[string]any{"claim_timeout_minutes": number(300)})
				var held []string
				for i := range 4 {
					held = append(held, w.add(fmt.Sprint("held ", i), map[string]any{"claim_timeout_minutes": number(300)}))
				}
				n := w.daemon(func(c *config.Config) { c.Sync.Interval, c.Schedule.Sweep = time.Minute, "@every 10m" })
				var claims []api.Claim
				for _, id := range held {
					claims = append(claims, n.mustClaim("Sandman", id))
				}
				time.Sleep(160 * time.Minute) // a little more than half of the leases
				remove := w.notion.Inject(fault)
				time.Sleep(5 * time.Minute)

				// Questions are answered, with the age of the answer.
				list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{Ready: true})
				if err != nil || len(list.Tasks) != 1 || string(list.Tasks[0].ID) != open {
					w.Errorf("ready = %v, %v; want one task", list.Tasks, err)
				}
				if s := n.status(); !list.Stale || !s.Mirror.Stale || list.AgeSeconds < 240 || s.Mirror.AgeSeconds < 240 || s.Mirror.SyncedAt.IsZero() {
					w.Errorf("age of the tasks = %+v, of the status = %+v", list.Age, s.Mirror.Age)
				}

				// Claims are refused at once and say when to retry. A short pause that Notion asked
				// for is waited for.
				most := time.Duration(0)
				if fault.Kind == emulator.RateLimited429 {
					most = 5 * time.Second
				}
				for range 30 {
					for _, id := range []string{open, ""} {
						start := time.Now()
						_, err := n.claim("Oracle", id)
						problem, ok := errors.AsType[*api.Problem](err)
						if !ok || code(err) != denied(claim.CodeNotionUnavailable) || problem.RetryAfter <= 0 {
							w.Fatalf("claim = %v, want notion_unavailable and when to try again", err)
						}
						if took := time.Since(start); took > most {
							w.Fatalf("to be refused took %v", took)
						}
					}
					time.Sleep(time.Minute)
				}

				// A renewal is accepted, and says when the lease ends.
				before, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(claims[3].ID), After: api.EventsFuture})
				if err != nil {
					w.Fatal(err)
				}
				renewed, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(claims[3].ID), "", api.RenewRequest{}))
				if err != nil || renewed.Detail == "" || !renewed.ExpiresAt.Equal(before.ExpiresAt.Time) {
					w.Errorf("renew = %+v, %v; want the lease as it was, until %v", renewed, err, before.ExpiresAt)
				}
				// Finishes are accepted.
				for i, end := range []func() (api.Claim, error){
					func() (api.Claim, error) {
						return client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(claims[2].ID), "", api.CompleteRequest{Summary: "first"}))
					},
					func() (api.Claim, error) {
						return client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(claims[1].ID), "", api.StopRequest{}))
					},
					func() (api.Claim, error) {
						return client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(claims[0].ID), "", api.CompleteRequest{Summary: "last"}))
					},
				} {
					start := time.Now()
					if got, err := end(); err != nil || got.State != claim.Finishing || time.Since(start) > 0 {
						w.Errorf("end %d: state %q, err = %v after %v; want it accepted at once", i, got.State, err, time.Since(start))
					}
					time.Sleep(time.Second)
				}
				if s := n.status(); s.Outbox.Finishes != 3 || s.Outbox.Depth < 3 || s.ClaimsHeld != 1 || s.Notion.LastError == "" && s.Notion.PausedUntil.IsZero() {
					w.Errorf("%d claims held, outbox = %+v, notion = %+v; want three finishes in the outbox, and why", s.ClaimsHeld, s.Outbox, s.Notion)
				}
				if metrics := n.get("/metrics"); !strings.Contains(metrics, `dibs_outbox_entries{log="claims"} 3`) {
					w.Error("metrics do not show three finishes in the outbox")
				}
				time.Sleep(25 * time.Minute)

				remove()
				w.notion.ResetRequests()
				time.Sleep(16 * time.Minute) // the longest pause that is accepted from Notion
				if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" || s.Outbox.Depth != 0 {
					w.Errorf("after it, mirror = %+v, notion = %+v, outbox = %+v", s.Mirror, s.Notion, s.Outbox)
				}
				want := []shown{
					{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:00:00.000+00:00", Token: true},
					{Status: "OPEN"},
					{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:00:00.000+00:00", Token: true},
				}
				for i, want := range want {
					if diff := cmp.Diff(want, show(w.page(held[i]))); diff != "" {
						w.Errorf("task %d (-want +got):\n%s", i, diff)
					}
				}
				if diff := cmp.Diff([]string{held[2], held[1], held[0]}, w.written()); diff != "" {
					w.Errorf("tasks in the order of their endings (-want +got):\n%s", diff)
				}
				after, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(claims[3].ID), After: api.EventsFuture})
				if err != nil || !after.ExpiresAt.After(before.ExpiresAt.Time) {
					w.Errorf("the lease of the claim that was renewed ends at %v, %v; want later than %v", after.ExpiresAt, err, before.ExpiresAt)
				}
				if diff := cmp.Diff([]string{"completed: Sandman", "completed: Sandman"}, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
				if got := slices.DeleteFunc(w.mesh(), func(s string) bool { return s == "granted: Sandman" }); !slices.Equal(got, []string{"released: Sandman"}) {
					w.Errorf("mesh log beside grants: %v", got)
				}
				n.mustClaim("Oracle", open)
			})
		})
	}
}

// The first requests to a silent Notion do not wait for long.
func TestNotionFallsSilent(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		held, open := w.add("held", nil), w.add("open", nil)
		n := w.daemon(nil)
		cl := n.mustClaim("Sandman", held)
		w.notion.Inject(emulator.Fault{Kind: emulator.Delay, Delay: time.Hour})
		most := 2*config.Default().Notion.Timeout + time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			start := time.Now()
			if _, err := n.claim("Oracle", open); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > most {
				w.Errorf("claim = %v after %v, want notion_unavailable within %v", err, time.Since(start), most)
			}
		})
		wg.Go(func() {
			start := time.Now()
			got, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{}))
			if err != nil || got.State != claim.Finishing || time.Since(start) > most {
				w.Errorf("complete = %q, %v after %v; want it accepted within %v", got.State, err, time.Since(start), most)
			}
		})
		wg.Wait()
		start := time.Now()
		if _, err := n.claim("Oracle", open); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 0 {
			w.Errorf("the next claim = %v after %v, want notion_unavailable at once", err, time.Since(start))
		}
		if s := n.status(); !strings.Contains(s.Notion.LastError, "down") || s.Outbox.Finishes != 1 {
			w.Errorf("outbox = %+v, notion = %+v; want one finish owed, and why", s.Outbox, s.Notion)
		}
	})
}

// written returns the tasks whose status was written, in order.
func (w *world) written() []string {
	var ids []string
	for _, r := range w.notion.Requests() {
		if r.Method == "PATCH" && r.Status == 200 && !strings.Contains(string(r.Body), "minutes") &&
			(strings.Contains(string(r.Body), "COMPLETED") || strings.Contains(string(r.Body), "OPEN")) {
			ids = append(ids, strings.TrimPrefix(r.Path, "/v1/pages/"))
		}
	}
	return ids
}

func TestWaitingForNotion(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("task", nil)
		n := w.daemon(nil)
		remove := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		time.Sleep(5 * time.Minute)
		start := time.Now()
		time.AfterFunc(10*time.Minute, remove)
		cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Task: id, WaitSeconds: 3600}))
		if took := time.Since(start); err != nil || took < 10*time.Minute || took > 11*time.Minute {
			w.Errorf("got %v, %v after %v; want the claim soon after 10 minutes", cl.ID, err, took)
		}
		w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		time.Sleep(time.Minute)
		start = time.Now()
		_, err = client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", WaitSeconds: 300}))
		if took := time.Since(start); code(err) != denied(claim.CodeNotionUnavailable) || took != 5*time.Minute {
			w.Errorf("err = %v after %v, want notion_unavailable after 5 minutes", err, took)
		}
	})
}

// The backlog from an outage is delivered without delaying claims.
func TestABacklogStarvesNoClaim(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	const agents, most = 60, 15 * time.Second
	inWorld(t, 180, func(w *world) {
		var ids, more []string
		for i := range agents {
			ids = append(ids, w.add(fmt.Sprint("held ", i), map[string]any{"claim_timeout_minutes": number(600)}))
			more = append(more, w.add(fmt.Sprint("open ", i), nil))
		}
		n := w.daemon(nil)
		// These claims owe log entries, too.
		logs := w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Kind: emulator.Error503})
		var claims []api.Claim
		for i, id := range ids {
			claims = append(claims, n.mustClaim(fmt.Sprint("agent-", i), id))
		}
		remove := w.notion.Inject(emulator.Fault{Kind: emulator.Error503})
		time.Sleep(30 * time.Minute)
		for _, cl := range claims {
			mustDo(w, n.complete(cl))
		}
		time.Sleep(30 * time.Minute)
		logs()
		remove()
		back := time.Now()
		for {
			if _, err := n.claim("Oracle", more[0]); err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		noticed := time.Since(back)
		var longest time.Duration
		for _, id := range more[1:5] {
			start := time.Now()
			if _, err := n.claim("Oracle", id); err != nil {
				w.Errorf("claim: %v", err)
			}
			longest = max(longest, time.Since(start))
		}
		if left := len(w.work()); left == agents {
			w.Error("the backlog was gone before the claims were made")
		}
		if noticed > 45*time.Second {
			w.Errorf("the first claim was granted %v after Notion was back", noticed)
		}
		if longest > most {
			w.Errorf("a claim took %v, want at most %v", longest, most)
		}
		for n.status().Outbox.Depth > 0 {
			if time.Since(back) > 5*time.Minute {
				w.Fatalf("%d log entries owed after five minutes", n.status().Outbox.Depth)
			}
			time.Sleep(time.Second)
		}
		w.Logf("the first claim was granted after %v, the backlog delivered after %v; the longest claim took %v", noticed, time.Since(back), longest)
		time.Sleep(time.Minute)
		if work, mesh := len(w.work()), len(w.mesh()); work != agents || mesh != agents+5 {
			w.Errorf("%d entries in the task log, %d in the mesh log; want %d, %d", work, mesh, agents, agents+5)
		}
		for _, r := range w.notion.Requests() {
			if r.Status == 429 {
				w.Fatalf("429 at %v", r.Time)
			}
		}
	})
}

// Claims need no queries, and go on without them.
func TestQueriesThatFailStopNoClaims(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, other := w.add("known", nil), w.add("other", nil)
		n := w.daemon(nil)
		w.notion.Inject(emulator.Fault{Path: "/v1/data_sources/*/query", Kind: emulator.Error500})
		time.Sleep(10 * time.Minute)
		if s := n.status(); !s.Mirror.Stale || s.Notion.LastError == "" {
			w.Errorf("status = %+v %+v", s.Mirror, s.Notion)
		}
		if err := n.complete(n.mustClaim("Sandman", id)); err != nil {
			w.Error(err)
		}
		// Live claims are guarded, and an agent is told when a person ends its claim.
		cl := n.mustClaim("Oracle", other)
		w.edit(other, map[string]any{"status": option("status", "CANCELLED")})
		time.Sleep(time.Minute)
		if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || got.Outcome != claim.EndLost {
			w.Errorf("the claim on a cancelled task is %s %s, %v; want it lost", got.State, got.Outcome, err)
		}
	})
}

// troubled are faults of a single page.
var troubled = map[string]emulator.FaultKind{
	"500": emulator.Error500, "409": emulator.Conflict409, "a broken connection": emulator.DropRequest, "HTML": emulator.HTML502,
}

// A failing page does not block other tasks, is reported in the status, and is retried later.
func TestNextPassesOverABrokenPage(t *testing.T) {
	for name, kind := range troubled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				first := w.add("first, and broken", map[string]any{"priority": option("select", "critical")})
				for range 3 {
					w.add("another", nil)
				}
				n := w.daemon(nil)
				mend := w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + first, Kind: kind})
				began := time.Now()
				for _, agent := range []string{"Sandman", "Oracle"} {
					if cl := n.mustClaim(agent, ""); string(cl.Task.ID) == first {
						w.Errorf("%s claimed the task whose page is broken", agent)
					}
				}
				if took := time.Since(began); took > time.Minute {
					w.Errorf("two claims took %v", took)
				}
				if s := n.status(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "first, and broken") {
					w.Errorf("warnings %q, want one of the broken page", s.Warnings)
				}
				mend()
				time.Sleep(10 * time.Minute)
				if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != first {
					w.Errorf("claimed %q, want the page that was broken", cl.Task.Title)
				}
				if s := n.status(); len(s.Warnings) != 0 {
					w.Errorf("warnings %q, want none", s.Warnings)
				}
			})
		})
	}
}

// If every ready task fails, the answer is not that nothing is ready.
func TestNextWithNothingButABrokenPage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("broken", nil)
		n := w.daemon(nil)
		defer w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + id, Kind: emulator.Error500})()
		for range 2 {
			if _, err := n.claim("Sandman", ""); code(err) != denied(claim.CodeNotionUnavailable) {
				w.Errorf("err = %v, want notion_unavailable", err)
			}
		}
	})
}

// A temporary failure of a write does not refuse a claim.
func TestClaimWriteFailsInPassing(t *testing.T) {
	for name, kind := range troubled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				n := w.daemon(nil)
				w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: kind, Times: 1})
				cl := n.mustClaim("Sandman", id)
				if got := w.page(id); got.Text("claim_token") != string(cl.ID) {
					w.Errorf("the page shows token %q, want %q", got.Text("claim_token"), cl.ID)
				}
			})
		})
	}
}

// A repeated request under a key is not refused because of a write that never arrived.
func TestKeyAfterAWriteThatNeverArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		mend := w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.DropRequest})
		ask := func() (api.Claim, error) {
			return client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("once", api.ClaimRequest{Agent: "Sandman", Task: id}))
		}
		if _, err := ask(); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Fatalf("err = %v, want notion_unavailable", err)
		}
		mend()
		cl, err := ask()
		if err != nil {
			w.Fatal(err)
		}
		if again, err := ask(); err != nil || again.ID != cl.ID {
			w.Errorf("asked again: %v, %v; want the same claim", again.ID, err)
		}
	})
}

// A failing stale task does not keep others from being swept.
func TestSweepPassesOverABrokenPage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for range 3 {
			ids = append(ids, w.add("left behind", map[string]any{
				"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(time.Now().Add(-3 * time.Hour)),
				"claim_token": text("rich_text", string(claim.NewID(time.Now().Add(-3*time.Hour)))),
			}))
		}
		defer w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + ids[0], Kind: emulator.Error500})()
		w.daemon(nil)
		time.Sleep(5 * time.Minute)
		for i, id := range ids {
			status := w.page(id).Select("status")
			if open := status == string(task.Open); open != (i > 0) {
				w.Errorf("task %d is %s", i, status)
			}
		}
	})
}

// A waiter hears of a new task even while another one is skipped.
func TestWaitingWhileAPageIsBroken(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("broken", nil)
		defer w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + id, Kind: emulator.Error500})()
		n := w.daemon(nil)
		granted := make(chan time.Time, 1)
		go func() {
			if _, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600})); err != nil {
				w.Error(err)
			}
			granted <- time.Now()
		}()
		time.Sleep(20 * time.Second)
		w.add("new", nil)
		added := time.Now()
		if took := (<-granted).Sub(added); took > 2*interval {
			w.Errorf("granted %v after the task was added", took)
		}
	})
}

// A time in which all pages failed, and queries did not, ends when Notion says so: pages are not
// skipped for long because of it.
func TestPagesAfterASpell(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("work", nil)
		n := w.daemon(nil)
		mend := w.notion.Inject(emulator.Fault{Path: "/v1/pages/*", Kind: emulator.Error503})
		granted := make(chan time.Time, 1)
		go func() {
			if _, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 3600})); err != nil {
				w.Error(err)
			}
			granted <- time.Now()
		}()
		time.Sleep(20 * time.Minute)
		mend()
		mended := time.Now()
		if took := (<-granted).Sub(mended); took < 0 || took > time.Minute {
			w.Errorf("granted %v after pages could be read again", took)
		}
	})
}

// Agents that claim named tasks with unread dependencies do not block each other forever.
func TestManyWithUnknownDependencies(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		const agents = 14
		var finished, ids []string
		for i := range 60 {
			finished = append(finished, w.add(fmt.Sprint("finished ", i), map[string]any{"status": option("status", "COMPLETED")}))
		}
		time.Sleep(72 * time.Hour) // they are no longer listed
		for i := range 60 {
			ids = append(ids, w.add(fmt.Sprint("task ", i), map[string]any{"depends_on": relation(finished[i])}))
		}
		n := w.daemon(nil)
		var all sync.WaitGroup
		began := time.Now()
		for i := range agents {
			all.Go(func() { n.mustClaim(fmt.Sprint("agent-", i), ids[59-i]) })
		}
		all.Wait()
		if took := time.Since(began); took > 2*time.Minute {
			w.Errorf("%d claims took %v", agents, took)
		}
	})
}

// A finish is accepted while Notion is away; the answer says that it is pending, and what is
// unknown. Once the lease is over, that is whether another agent has the task: if so, the finish is
// dropped when Notion is back, and the agent is told.
func TestFinishWhileNotionIsAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		after         time.Duration // after the claim
		taken         bool
		unknown       string
		outcome       claim.Ending
		work, trigger string
	}{
		{"with a live lease", time.Minute, false, "once the lease is over", claim.EndCompleted, "completed: Sandman", ""},
		{"after the lease", 4 * time.Minute, false, "the lease is over", claim.EndCompleted, "completed: Sandman", ""},
		{"after another agent got the task", 6 * time.Minute, true, "whether another agent", claim.EndLost, "orphaned: Sandman", "claim_lost work from Oracle"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				settings := func(c *config.Config) { c.Claim.Timeout, c.Schedule.Sweep = 3*time.Minute, "@every 100h" }
				a, lineA := w.onLine("a", settings)
				b, _ := w.onLine("b", settings)
				cl := a.mustClaim("Sandman", id)
				back := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: func(r *http.Request, _ []byte) bool { return lineA.sends(r) }})
				time.Sleep(tt.after)
				if tt.taken {
					b.mustClaim("Oracle", id)
				}
				got, err := client.Do(w.Context(), a.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: "Sandman", Summary: "all of it"}))
				if err != nil || got.State != claim.Finishing || !got.Pending || !strings.Contains(got.Unknown, tt.unknown) {
					t.Errorf("answered %+v, %v; want it pending, and not known %q", got, err, tt.unknown)
				}
				if held, err := client.Do(w.Context(), a.Client, api.OpListClaims, api.AgentFilter{Agent: "Sandman"}); err != nil || len(held.Claims) != 1 || !held.Claims[0].Pending {
					t.Errorf("claims %+v, %v; want the one pending", held, err)
				}
				back()
				time.Sleep(2 * time.Minute)
				end, err := client.Do(w.Context(), a.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: api.EventsFuture})
				if err != nil || end.Pending || end.Unknown != "" || end.Outcome != tt.outcome {
					t.Errorf("ended as %+v, %v; want %s", end, err, tt.outcome)
				}
				if work := w.work(); len(work) != 1 || work[0] != tt.work {
					t.Errorf("task log %v, want %s", work, tt.work)
				}
				told := ""
				got2, err := client.Do(w.Context(), a.Client, api.OpPoll, api.PollInput{Name: "Sandman", Body: &api.PollRequest{}})
				for _, trigger := range got2.Triggers {
					if trigger.Type == inbox.ClaimLost {
						told += string(trigger.Type) + " " + trigger.Task.Title + " from " + trigger.From
					}
				}
				if err != nil || told != tt.trigger {
					t.Errorf("told %q, %v; want %q", told, err, tt.trigger)
				}
				want := "COMPLETED Sandman"
				if tt.taken {
					want = "IN_PROGRESS Oracle"
				}
				if p := w.page(id); p.Select("status")+" "+p.Text("claimed_by") != want {
					t.Errorf("the page shows %s %s, want %s", p.Select("status"), p.Text("claimed_by"), want)
				}
			})
		})
	}
}

// Waiters for Notion continue soon after it is back, however long it was away: it is probed every
// three seconds, and no more often.
func TestNotionIsBack(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	faults := []emulator.Fault{{Kind: emulator.DropRequest}, {Kind: emulator.Error503}, {Kind: emulator.HTML502}}
	for j, fault := range faults {
		for i, outage := range []time.Duration{5, 8, 13, 20, 30, 38, 44, 50, 75, 120, 300, 600} {
			if !inTurn(i, j, len(faults)) {
				continue
			}
			outage *= time.Second
			t.Run(fmt.Sprintf("%s for %v", fault.Kind, outage), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					open, held := w.add("open", nil), w.add("held", nil)
					n := w.daemon(func(c *config.Config) { c.Schedule.Sweep = "@every 1000h" })
					cl := n.mustClaim("Sandman", held)
					time.Sleep(67 * time.Second)
					remove := w.notion.Inject(fault)
					w.notion.ResetRequests()
					granted := make(chan time.Time)
					go func() {
						time.Sleep(time.Second)
						if _, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: open, WaitSeconds: 3600})); err != nil {
							w.Error(err)
						}
						granted <- time.Now()
					}()
					time.AfterFunc(2*time.Second, func() {
						if err := n.complete(cl); err != nil {
							w.Error(err)
						}
					})
					time.Sleep(outage)
					during := len(w.notion.Requests())
					remove()
					back := time.Now()
					first := (<-granted).Sub(back)
					time.Sleep(15 * time.Second)
					claimed, told, entry := -time.Second, -time.Second, -time.Second
					for _, r := range w.notion.Requests() {
						took := r.Time.Sub(back)
						switch {
						case took < 0 || r.Status != 200:
						case claimed < 0 && r.Method == "PATCH" && strings.HasSuffix(r.Path, open):
							claimed = took
						case told < 0 && r.Method == "PATCH" && strings.HasSuffix(r.Path, held):
							told = took
						case entry < 0 && r.Method == "POST" && r.Path == "/v1/pages":
							entry = took
						}
					}
					w.Logf("claim written %v, granted %v, finish %v, log entry %v after Notion was back; %d requests during the outage", claimed, first, told, entry, during)
					const most = 5 * time.Second
					if claimed > most || told > most || entry > most || claimed < 0 || told < 0 || entry < 0 || first > most+config.Default().Claim.Settle {
						w.Error("later than 5 s after Notion was back, and the settle wait")
					}
					if most := 24 + int(outage/(3*time.Second)); during > most {
						w.Errorf("%d requests during the outage, want at most %d", during, most)
					}
				})
			})
		}
	}
}
