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
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
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

func TestAnHourWithoutNotion(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, fault := range fewOf(2, outages()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				open := w.add("open", map[string]any{"claim_timeout_minutes": number(300)})
				n := w.daemon(func(c *config.Config) { c.Sync.Interval, c.Schedule.Sweep = time.Minute, "@every 10m" })
				var held []string
				var claims []api.Claim
				for i := range 4 {
					held = append(held, w.add(fmt.Sprint("held ", i), map[string]any{"claim_timeout_minutes": number(300)}))
					claims = append(claims, n.mustClaim("Sandman", held[i]))
				}
				time.Sleep(160 * time.Minute) // a little more than half of the leases
				remove := w.notion.Inject(fault)
				time.Sleep(5 * time.Minute)

				// Questions are answered, with the age of the answer.
				list := mustCall(n, api.OpListTasks, api.ListTasksInput{Ready: true})
				if len(list.Tasks) != 1 || string(list.Tasks[0].ID) != open {
					w.Errorf("ready = %v; want one task", list.Tasks)
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
						if took := time.Since(start); !ok || code(err) != denied(claim.CodeNotionUnavailable) || problem.RetryAfter <= 0 || took > most {
							w.Fatalf("claim = %v after %v, want notion_unavailable at once and when to try again", err, took)
						}
					}
					time.Sleep(time.Minute)
				}

				// A renewal is accepted, and says when the lease ends. Finishes are accepted.
				before := n.seen(claims[3])
				if renewed, err := n.renew(claims[3]); err != nil || renewed.Detail == "" || !renewed.ExpiresAt.Equal(before.ExpiresAt.Time) {
					w.Errorf("renew = %+v, %v; want the lease as it was, until %v", renewed, err, before.ExpiresAt)
				}
				for i, end := range []func() (api.Claim, error){
					func() (api.Claim, error) { return n.end(claims[2]) },
					func() (api.Claim, error) {
						return call(n, api.OpRelease, api.On(string(claims[1].ID), "", api.StopRequest{}))
					},
					func() (api.Claim, error) { return n.end(claims[0]) },
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
				same(w, "finishes in the metrics", "3", n.samples()[`dibs_outbox_entries{log="claims"}`])
				time.Sleep(25 * time.Minute)

				remove()
				w.notion.ResetRequests()
				time.Sleep(16 * time.Minute) // the longest pause that is accepted from Notion
				if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" || s.Outbox.Depth != 0 {
					w.Errorf("after it, mirror = %+v, notion = %+v, outbox = %+v", s.Mirror, s.Notion, s.Outbox)
				}
				completed := shown{Status: "COMPLETED", ClaimedBy: "Sandman", ClaimedAt: "2000-01-01T00:00:00.000+00:00", Token: true}
				for i, want := range []shown{completed, {Status: "OPEN"}, completed} {
					same(w, fmt.Sprint("task ", i), want, show(w.page(held[i])))
				}
				same(w, "tasks in the order of their endings", []string{held[2], held[1], held[0]}, w.written())
				if after := n.seen(claims[3]); !after.ExpiresAt.After(before.ExpiresAt.Time) {
					w.Errorf("the lease of the claim that was renewed ends at %v; want later than %v", after.ExpiresAt, before.ExpiresAt)
				}
				same(w, "task log", []string{"completed: Sandman", "completed: Sandman"}, w.work())
				same(w, "mesh log beside grants", []string{"released: Sandman"}, slices.DeleteFunc(w.mesh(), func(s string) bool { return s == "granted: Sandman" }))
				n.mustClaim("Oracle", open)
			})
		})
	}
}

// The first requests to a silent Notion do not wait for long, the next ones not at all, and one that
// would wait is told in the end.
func TestNotionFallsSilent(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		held, open := w.add("held", nil), w.add("open", nil)
		w.add("first of all", map[string]any{"priority": option("select", "critical")}) // the two claims are of two tasks
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = 10 * time.Minute })
		cl := n.mustClaim("Sandman", held)
		w.notion.Inject(emulator.Fault{Kind: emulator.Delay, Delay: time.Hour})
		began, most := time.Now(), config.Default().Notion.Timeout+5*time.Second
		var wg sync.WaitGroup
		for _, id := range []string{open, ""} {
			wg.Go(func() {
				_, err := n.claim("Oracle", id)
				w.refused("a claim", err, denied(claim.CodeNotionUnavailable))
			})
		}
		wg.Go(func() {
			if got, err := n.end(cl); err != nil || got.State != claim.Finishing {
				w.Errorf("complete = %q, %v; want it accepted", got.State, err)
			}
		})
		wg.Wait()
		if took := time.Since(began); took > most {
			w.Errorf("answered after %v, want %v", took, most)
		}
		if s := n.status(); !strings.Contains(s.Notion.LastError, "down") || s.Outbox.Finishes != 1 {
			w.Errorf("outbox = %+v, notion = %+v; want one finish owed, and why", s.Outbox, s.Notion)
		}
		for _, wait := range []time.Duration{0, 5 * time.Minute} {
			began = time.Now()
			_, err := n.waitFor("Oracle", open, wait)
			if w.refused("a claim", err, denied(claim.CodeNotionUnavailable)); time.Since(began) != wait {
				w.Errorf("refused after %v, want %v", time.Since(began), wait)
			}
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
		var claims []api.Claim
		var more []string
		n := w.daemon(nil)
		// These claims owe log entries, too.
		logs := w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Kind: emulator.Error503})
		for i := range agents {
			id := w.add(fmt.Sprint("held ", i), map[string]any{"claim_timeout_minutes": number(600)})
			claims = append(claims, n.mustClaim(fmt.Sprint("agent-", i), id))
			more = append(more, w.add(fmt.Sprint("open ", i), nil))
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
		noticed := w.until(45*time.Second, "the first claim", func() bool { return second(n.claim("Oracle", more[0])) == nil })
		var longest time.Duration
		for _, id := range more[1:5] {
			start := time.Now()
			n.mustClaim("Oracle", id)
			longest = max(longest, time.Since(start))
		}
		if left := len(w.work()); left == agents || longest > most {
			w.Errorf("a claim took %v, want at most %v; %d entries were delivered by then, want fewer than %d", longest, most, left, agents)
		}
		w.until(5*time.Minute, "the backlog to be delivered", func() bool { return n.status().Outbox.Depth == 0 })
		w.Logf("the first claim was granted after %v, the backlog delivered after %v; the longest claim took %v", noticed, time.Since(back), longest)
		time.Sleep(time.Minute)
		if work, mesh := len(w.work()), len(w.mesh()); work != agents || mesh != agents+5 {
			w.Errorf("%d entries in the task log, %d in the mesh log; want %d, %d", work, mesh, agents, agents+5)
		}
		w.neverLimited(w.notion.Requests())
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
		mustDo(w, n.complete(n.mustClaim("Sandman", id)))
		// Live claims are guarded, and an agent is told when a person ends its claim.
		cl := n.mustClaim("Oracle", other)
		w.edit(other, map[string]any{"status": option("status", "CANCELLED")})
		time.Sleep(time.Minute)
		same(w, "the claim on a cancelled task", claim.EndLost, n.seen(cl).Outcome)
	})
}

// A page that fails keeps nobody from other tasks, is reported, and is retried later. Where it is all
// there is, the answer is not that nothing is ready.
func TestABrokenPage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first, and broken", map[string]any{"priority": option("select", "critical")})
		n := w.daemon(nil)
		mend := w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + first, Kind: emulator.Error500})
		for range 2 {
			_, err := n.claim("Sandman", "")
			w.refused("next, with nothing else", err, denied(claim.CodeNotionUnavailable))
		}
		time.AfterFunc(20*time.Second, func() { w.add("another", nil) })
		began := time.Now()
		if cl, err := n.waitFor("Sandman", "", 10*time.Minute); err != nil || string(cl.Task.ID) == first || time.Since(began) > 20*time.Second+2*interval {
			w.Errorf("got %q, %v after %v; want the new task", cl.Task.Title, err, time.Since(began))
		}
		if s := n.status(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "first, and broken") {
			w.Errorf("warnings %q, want one of the broken page", s.Warnings)
		}
		mend()
		time.Sleep(10 * time.Minute)
		if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != first || len(n.status().Warnings) != 0 {
			w.Errorf("claimed %q, warnings %q; want the page that was broken, and none", cl.Task.Title, n.status().Warnings)
		}
	})
}

// A repeated request under a key is not refused because of a write that never arrived.
func TestKeyAfterAWriteThatNeverArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		mend := w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.DropRequest})
		in := api.Keyed("once", api.ClaimRequest{Agent: "Sandman", Task: id})
		w.refused("at first", second(call(n, api.OpClaim, in)), denied(claim.CodeNotionUnavailable))
		mend()
		same(w, "asked again, the claim", mustCall(n, api.OpClaim, in).ID, mustCall(n, api.OpClaim, in).ID)
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
		time.AfterFunc(20*time.Minute, w.notion.Inject(emulator.Fault{Path: "/v1/pages/*", Kind: emulator.Error503}))
		began := time.Now()
		_, err := n.waitFor("Sandman", "", time.Hour)
		if took := time.Since(began) - 20*time.Minute; err != nil || took < 0 || took > time.Minute {
			w.Errorf("%v, %v after pages could be read again", err, took)
		}
	})
}

// A finish is accepted while Notion is away; the answer says that it is pending, and what is
// unknown. Once the lease is over, that is whether another agent has the task: if so, the finish is
// dropped when Notion is back, and the agent is told.
func TestFinishWhileNotionIsAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                          string
		after                         time.Duration // after the claim
		unknown                       string
		outcome                       claim.Ending
		shows, work, trigger, another string
	}{
		{"with a live lease", time.Minute, "once the lease is over", claim.EndCompleted, "COMPLETED Sandman", "completed: Sandman", "", ""},
		{"after the lease", 4 * time.Minute, "the lease is over", claim.EndCompleted, "COMPLETED Sandman", "completed: Sandman", "", ""},
		{"after another agent got the task", 6 * time.Minute, "whether another agent", claim.EndLost, "IN_PROGRESS Oracle", "orphaned: Sandman", "claim_lost work from Oracle", "Oracle"},
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
				if tt.another != "" {
					b.mustClaim(tt.another, id)
				}
				if got, err := a.end(cl); err != nil || got.State != claim.Finishing || !got.Pending || !strings.Contains(got.Unknown, tt.unknown) {
					t.Errorf("answered %+v, %v; want it pending, and not known %q", got, err, tt.unknown)
				}
				if held := mustCall(a, api.OpListClaims, api.AgentFilter{Agent: "Sandman"}).Claims; len(held) != 1 || !held[0].Pending {
					t.Errorf("claims %+v; want the one pending", held)
				}
				back()
				time.Sleep(2 * time.Minute)
				if end := a.seen(cl); end.Pending || end.Unknown != "" || end.Outcome != tt.outcome {
					t.Errorf("ended as %+v; want %s", end, tt.outcome)
				}
				told := ""
				for _, trigger := range a.poll("Sandman", 0) {
					if trigger.Type == inbox.ClaimLost {
						told += string(trigger.Type) + " " + trigger.Task.Title + " from " + trigger.From
					}
				}
				same(w, "task log, what is told, and what the page shows", []string{tt.work, tt.trigger, tt.shows}, append(w.work(), told, shape(w.page(id))))
			})
		})
	}
}

// Waiters for Notion continue soon after it is back, however long it was away: it is probed every
// three seconds, and no more often.
func TestNotionIsBack(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const most = 5 * time.Second
	faults := []emulator.Fault{{Kind: emulator.DropRequest}, {Kind: emulator.Error503}, {Kind: emulator.HTML502}}
	for j, fault := range faults {
		for i, outage := range []time.Duration{5, 8, 38, 50, 120, 600} {
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
					time.AfterFunc(time.Second, func() {
						mustDo(w, second(n.waitFor("Oracle", open, time.Hour)))
						granted <- time.Now()
					})
					time.AfterFunc(2*time.Second, func() { mustDo(w, n.complete(cl)) })
					time.Sleep(outage)
					during := len(w.notion.Requests())
					remove()
					back := time.Now()
					if first := (<-granted).Sub(back); first > most+config.Default().Claim.Settle {
						w.Errorf("granted %v after Notion was back", first)
					}
					time.Sleep(15 * time.Second)
					late := map[string]bool{"PATCH /v1/pages/" + open: true, "PATCH /v1/pages/" + held: true, "POST /v1/pages": true}
					for _, r := range w.notion.Requests() {
						if took := r.Time.Sub(back); took >= 0 && took <= most && r.Status == 200 {
							delete(late, r.Method+" "+r.Path)
						}
					}
					if len(late) > 0 {
						w.Errorf("%v: later than 5 s after Notion was back", late)
					}
					if most := 24 + int(outage/(3*time.Second)); during > most {
						w.Errorf("%d requests during the outage, want at most %d", during, most)
					}
				})
			})
		}
	}
}

// neverLimited checks that Notion answered no request with 429.
func (w *world) neverLimited(requests []emulator.Request) {
	w.Helper()
	for _, r := range requests {
		if r.Status == 429 {
			w.Fatalf("429 for %s %s at %v", r.Method, r.Path, r.Time)
		}
	}
}
