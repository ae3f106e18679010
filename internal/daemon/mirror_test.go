package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// titles returns the titles of the daemon's tasks, sorted.
func (n *node) titles() []string {
	n.w.Helper()
	out := []string{}
	for _, t := range mustCall(n, api.OpListTasks, api.ListTasksInput{}).Tasks {
		out = append(out, t.Title)
	}
	slices.Sort(out)
	return out
}

// status returns the daemon's status.
func (n *node) status() api.Status {
	n.w.Helper()
	return mustCall(n, api.OpStatus, struct{}{})
}

// task returns one of the daemon's tasks.
func (n *node) task(id string) api.Task {
	n.w.Helper()
	return mustCall(n, api.OpGetTask, api.GetTaskInput{ID: id})
}

// sync reads the whole board.
func (n *node) sync() api.Sync {
	n.w.Helper()
	done, err := n.trySync(true)
	mustDo(n.w, err)
	return done
}

func (n *node) trySync(full bool) (api.Sync, error) {
	return call(n, api.OpSync, api.Keyed("", &api.SyncRequest{Full: full}))
}

func name(title string) map[string]any { return map[string]any{"Name": text("title", title)} }

// moveAway moves a task, as a person, to another database with properties of the same names.
func (w *world) moveAway(id string) {
	w.Helper()
	elsewhere, err := w.notion.CreateDatabase("Elsewhere", map[string]any{
		"Name": typed("title"), "claimed_by": typed("rich_text"), "claim_token": typed("rich_text"), "claimed_at": typed("date"),
		"status": typed("status", "IN_PROGRESS", "OPEN"),
	})
	mustDo(w, err)
	mustDo(w, w.notion.MovePage(id, elsewhere))
}

// unshare revokes the connection's access to one task, as a person.
func (w *world) unshare(id string) {
	w.Helper()
	mustDo(w, w.notion.UnsharePage(id))
}

// of matches the requests of a method for a page.
func of(method, id string) func(*http.Request, []byte) bool {
	return func(r *http.Request, _ []byte) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, id) }
}

// What leaves the board in one way or another leaves the mirror, and comes back with it. A database
// among the tasks, as in wikis, is skipped and reported.
func TestWhatLeavesTheBoardLeavesTheMirror(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		trashed, archived := w.add("trashed", nil), w.add("archived", nil)
		moved, unshared := w.add("moved", nil), w.add("no longer shared", nil)
		w.add("stays", nil)
		late := w.add("trashed just before the full sync", nil)
		_, err := w.notion.CreateRowDatabase(w.tasks, "Handbook", map[string]any{"Name": typed("title")})
		mustDo(w, err)
		n := w.daemon(nil)
		time.Sleep(50 * time.Minute)
		mustDo(w, w.notion.TrashPage(trashed))
		mustDo(w, w.notion.ArchivePage(archived, true))
		w.moveAway(moved)
		w.unshare(unshared)
		time.Sleep(10*time.Minute - time.Second)
		mustDo(w, w.notion.TrashPage(late))
		time.Sleep(2 * time.Second) // an hour after the start
		same(w, "tasks", []string{"stays"}, n.titles())
		mustDo(w, w.notion.RestorePage(trashed))
		mustDo(w, w.notion.MovePage(moved, w.tasks))
		mustDo(w, w.notion.SharePage(unshared))
		if done := n.sync(); done.Read != 4 || !done.Full {
			w.Errorf("sync = %+v, want four tasks", done)
		}
		same(w, "tasks", []string{"moved", "no longer shared", "stays", "trashed"}, n.titles())
		if s := n.status(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], `"Handbook" (`) || s.Mirror.Stale || s.Notion.LastError != "" {
			w.Errorf("warnings %q, stale %v, error %q", s.Warnings, s.Mirror.Stale, s.Notion.LastError)
		}
	})
}

// A board that is in the trash, or not shared, is one state of the board, and not an empty one: refusals
// and the status name it, nothing is written, finishes are owed, and Notion is asked no more often
// because agents ask. Once it is back, everything goes on.
func TestTheBoardIsGone(t *testing.T) {
	t.Parallel()
	const page = "9c1f0b6e-2a47-81d0-b3c5-7e6d5f4a3b21" // on which the databases lie
	trash := func(w *world) error { return w.notion.TrashPage(page) }
	restore := func(w *world) error { return w.notion.RestorePage(page) }
	byClaim := func(_ *world, n *node, free string) error { return second(n.claim("Sandman", free)) }
	bySync := func(_ *world, n *node, _ string) error { return second(n.trySync(true)) }
	byInterval := func(w *world, n *node, free string) error {
		time.Sleep(20 * time.Second)
		if len(n.status().Warnings) == 0 {
			w.Error("the status warns of nothing")
		}
		return second(n.claim("Sandman", free))
	}
	for name, tt := range map[string]struct {
		noticed    func(w *world, n *node, free string) error
		gone, back func(w *world) error
		code, says string
		most       int // requests for the data source in five minutes
	}{
		"trash, noticed by a claim":      {byClaim, trash, restore, string(claim.CodeNotionRefused), "is in the trash: restore it", 5},
		"trash, noticed by the interval": {byInterval, trash, restore, string(claim.CodeNotionRefused), "is in the trash: restore it", 5},
		"not shared, noticed by a sync": {bySync, func(w *world) error { return w.notion.Unshare(w.tasks) },
			func(w *world) error { return w.notion.Share(w.tasks) }, "", "not shared", 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				held, done, free := w.add("held", nil), w.add("done", nil), w.add("free", nil)
				n := w.daemon(nil)
				working, finished := n.mustClaim("Oracle", held), n.mustClaim("Hypnos", done)
				time.Sleep(time.Minute)
				mustDo(w, tt.gone(w))
				w.notion.ResetRequests()
				for _, err := range []error{tt.noticed(w, n, free), byClaim(w, n, free), byClaim(w, n, free)} {
					w.refused("what noticed it, or a claim after that", err, tt.code, tt.says)
				}
				if got, err := n.end(finished); err != nil || got.State != claim.Finishing {
					w.Errorf("complete = %q, %v; want it accepted", got.State, err)
				}
				sent := func(kind string) int {
					return len(slices.DeleteFunc(w.requests(), func(r string) bool { return !strings.HasPrefix(r, kind) }))
				}
				if n := sent("PATCH"); n > 0 {
					w.Errorf("%d writes to a board that is gone", n)
				}
				w.notion.ResetRequests()
				time.Sleep(5 * time.Minute)
				if asked := sent("GET data_sources/"); asked > tt.most {
					w.Errorf("asked %d times in five minutes: %q", asked, w.requests())
				}
				if tt.code == "" {
					same(w, "tasks", []string{"done", "free", "held"}, n.titles())
				}
				if s := n.status(); !strings.Contains(strings.Join(append(s.Warnings, s.Notion.LastError), "\n"), tt.says) || !s.Mirror.Stale || s.ClaimsHeld != 1 || s.Outbox.Finishes != 1 {
					w.Errorf("status = %+v", s)
				}
				mustDo(w, tt.back(w))
				time.Sleep(10 * time.Minute)
				if s := n.status(); len(s.Warnings) > 0 {
					w.Errorf("it is back, and the warnings are %q", s.Warnings)
				}
				mustDo(w, n.complete(working))
				n.mustClaim("Sandman", free)
				time.Sleep(time.Minute)
				same(w, "task log", []string{"completed: Hypnos", "completed: Oracle"}, w.work())
			})
		})
	}
}

// While a large board is read, the daemon serves, says how far it is, and stops at once when it is
// told to; the listing outlasts a usual pause. The next run has tasks to show from the beginning.
func TestALargeBoard(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	const tasks = 1250
	inWorld(t, 180, func(w *world) {
		for i := range tasks {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return 500 * time.Millisecond, 0 })
		o := w.options(nil)
		began := time.Now()
		n := w.start(o)
		if took := time.Since(began); took > 9*time.Second { // three databases, two requests each, and five seconds
			w.Errorf("serves after %s", took)
		}
		s := n.status()
		if p := s.Mirror.Syncing; p == nil || p.Read < 100 || p.Read >= tasks || p.Percent != nil || !s.Mirror.Stale {
			w.Errorf("while the board is read, mirror = %+v (%+v)", s.Mirror, s.Mirror.Syncing)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := client.Do(context.Background(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 3600}))
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond)
		began = time.Now()
		n.stop()
		if err := <-ended; err == nil || time.Since(began) > 2*time.Second {
			w.Errorf("stopping took %v, and who waited got %v", time.Since(began), err)
		}

		w.notion.Inject(emulator.Fault{Path: "/v1/data_sources/*/query", Skip: 2, Times: 1, Kind: emulator.RateLimited429, RetryAfter: time.Minute})
		n = w.start(o)
		_, err := n.claim("Sandman", "")
		problem, ok := errors.AsType[*api.Problem](err)
		if code(err) != denied(claim.CodeNotionUnavailable) || !ok || problem.RetryAfter == 0 {
			w.Errorf("next = %v, want notion_unavailable and when to try again", err)
		}
		began = time.Now()
		_, err = n.trySync(false)
		if w.refused("a sync", err, denied(claim.CodeNotionUnavailable)); time.Since(began) > 0 {
			w.Errorf("refused after %v, want it at once", time.Since(began))
		}
		mustDo(w, second(n.waitFor("Sandman", "", 5*time.Minute)))
		if s := n.status(); s.Mirror.Tasks != tasks || s.Mirror.Syncing != nil || s.Mirror.Stale {
			w.Errorf("mirror = %+v, want %d tasks", s.Mirror, tasks)
		}
		n.stop()

		n = w.start(o)
		if s := n.status(); s.Mirror.Syncing == nil || s.Mirror.Syncing.Percent == nil || *s.Mirror.Syncing.Percent > 90 || s.Mirror.Tasks != tasks {
			w.Errorf("while the board is read again, mirror = %+v (%+v)", s.Mirror, s.Mirror.Syncing)
		}
		n.mustClaim("Oracle", "")
	})
}

// During a pause that Notion asked for, nobody waits for a sync, or for a dependency that is read
// during a claim. Questions are answered from the mirror, and say so.
func TestInAPause(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		needed := w.add("finished long ago", map[string]any{"status": option("status", "COMPLETED")})
		time.Sleep(48 * time.Hour)
		held, id := w.add("held", nil), w.add("task", nil)
		n := w.daemon(nil)
		n.mustClaim("Sandman", held)
		time.Sleep(time.Minute)
		soon := func(what string, do func() error) {
			w.Helper()
			start := time.Now()
			err := do()
			w.refused(what, err, denied(claim.CodeNotionUnavailable))
			if p, ok := errors.AsType[*api.Problem](err); !ok || p.RetryAfter < 180 || p.RetryAfter > 270 || time.Since(start) > 5*time.Second {
				w.Errorf("%s = %v after %v, want it refused soon, and when to try again", what, err, time.Since(start))
			}
		}
		w.edit(id, map[string]any{"depends_on": relation(needed)})
		w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + needed, Kind: emulator.RateLimited429, RetryAfter: 4 * time.Minute, Times: 1})
		began := time.Now()
		soon("a claim", func() error { return second(n.claim("Oracle", id)) })
		time.Sleep(config.Default().Sync.Interval + 10*time.Second)
		soon("a sync", func() error { return second(n.trySync(false)) })
		soon("a full sync", func() error { return second(n.trySync(true)) })
		w.refused("next", second(n.claim("Oracle", "")), denied(claim.CodeNotionUnavailable))
		if s := n.status(); !s.Mirror.Stale || s.Notion.PausedUntil.IsZero() || !mustCall(n, api.OpListTasks, api.ListTasksInput{}).Stale {
			w.Errorf("mirror = %+v, notion = %+v; want it out of date, and why", s.Mirror, s.Notion)
		}
		time.Sleep(time.Until(began.Add(5 * time.Minute)))
		if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" {
			w.Errorf("after the pause, mirror = %+v, notion = %+v", s.Mirror, s.Notion)
		}
		n.mustClaim("Oracle", "")
	})
}

// A late claim write is withdrawn even if the sync that saw it failed afterwards, or the daemon was
// stopped before it could react.
func TestLateClaimInASyncThatFails(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("started anew: ", restart), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				late, other := w.add("late", nil), w.add("of somebody else", map[string]any{
					"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(time.Now()),
					"claim_token": text("rich_text", string(claim.NewID(time.Now()))),
				})
				o := w.options(nil)
				n := w.start(o)
				time.Sleep(time.Minute)
				w.notion.Inject(emulator.Fault{Kind: emulator.LateWrite, Late: 40 * time.Second, Times: 1, Match: of("PATCH", late)})
				w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Times: 2, Match: of("PATCH", late)}) // of the attempts that follow
				began := time.Now()
				_, err := n.claim("Oracle", late)
				w.refused("the claim", err, denied(claim.CodeNotionUnavailable))

				// Queries do not return trashed pages, so the daemon reads the page.
				w.trash(other)
				fails := w.notion.Inject(emulator.Fault{Kind: emulator.Error500, Match: of("GET", other)})
				time.Sleep(time.Until(began.Add(65 * time.Second)))
				if got := w.page(late).Text("claimed_by"); got != "Oracle" || n.status().Notion.LastError == "" {
					w.Fatalf("the task is %q's, and the status %+v; want the late write on it, and the sync to fail", got, n.status().Notion)
				}
				if restart {
					n.stop()
				}
				fails()
				if restart {
					w.start(o)
				}
				time.Sleep(3 * time.Minute)
				same(w, "the task, the late claim withdrawn", "OPEN ", shape(w.page(late)))
			})
		})
	}
}

// The parts come before the whole, whoever does them; a part that fell away does not count. The
// page decides, not what the mirror shows of it. Without the column nothing is claimed.
func TestPartsComeBeforeTheWhole(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		schema := func(to any) { mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Sub-item": to})) }
		schema(map[string]any{"relation": map[string]any{"database_id": w.tasks, "single_property": map[string]any{}}})
		first, other := w.add("first part", nil), w.add("second part", nil)
		whole := w.add("whole", map[string]any{"Sub-item": relation(first, other)})
		n := w.daemon(func(c *config.Config) { c.Tasks.Properties.SubItems = "Sub-item" })
		ready := func(want ...string) {
			w.Helper()
			time.Sleep(2 * interval)
			same(w, "ready", want, n.ready("Sandman"))
		}
		refused := func(what, want string) { w.refused(what, second(n.claim("Sandman", whole)), want) }
		ready("first part", "second part")
		refused("the whole", "blocked_by_dependency")
		w.edit(first, map[string]any{"status": option("status", "CANCELLED")})
		ready("second part")
		mustDo(w, n.complete(n.mustClaim("Sandman", other)))
		ready("whole")
		w.edit(whole, map[string]any{"Sub-item": relation(first, other, w.add("third part", nil))})
		refused("the whole, which just got another part", "blocked_by_dependency")
		schema(nil)
		refused("a claim without the column", "notion_refused")
	})
}
