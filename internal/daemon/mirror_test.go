package daemon_test

import (
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

	"github.com/google/go-cmp/cmp"
)

// titles returns the titles of the daemon's tasks, sorted.
func (n *node) titles() []string {
	n.w.Helper()
	list, err := client.Do(n.w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{})
	if err != nil {
		n.w.Fatal(err)
	}
	out := []string{}
	for _, t := range list.Tasks {
		out = append(out, t.Title)
	}
	slices.Sort(out)
	return out
}

// status returns the daemon's status.
func (n *node) status() api.Status {
	n.w.Helper()
	s, err := client.Do(n.w.Context(), n.Client, api.OpStatus, struct{}{})
	if err != nil {
		n.w.Fatal(err)
	}
	return s
}

// task returns one of the daemon's tasks.
func (n *node) task(id string) api.Task {
	n.w.Helper()
	t, err := client.Do(n.w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: id})
	if err != nil {
		n.w.Fatal(err)
	}
	return t
}

// sync reads the whole board.
func (n *node) sync() api.Sync {
	n.w.Helper()
	done, err := client.Do(n.w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true}))
	if err != nil {
		n.w.Fatal(err)
	}
	return done
}

func name(title string) map[string]any { return map[string]any{"Name": text("title", title)} }

// Notion cuts the time of an edit to the minute, so the second of two edits in a minute only
// changes the content.
func TestEditsInOneMinuteAreAllSeen(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("first", nil)
		n := w.daemon(nil)
		time.Sleep(10 * time.Minute)
		for _, title := range []string{"second", "third", "fourth"} {
			w.edit(id, name(title))
			time.Sleep(16 * time.Second)
			if got := n.task(id).Title; got != title {
				w.Errorf("title = %q, want %q", got, title)
			}
		}
	})
}

func TestAnIdleIntervalIsOneRequest(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("task", nil)
		w.daemon(nil)
		w.edit(id, name("edited")) // for minutes after this every query returns it
		time.Sleep(16 * time.Second)
		w.notion.ResetRequests()
		time.Sleep(10 * time.Minute)
		want := slices.Repeat([]string{"POST query"}, 40)
		if diff := cmp.Diff(want, w.requests()); diff != "" {
			w.Errorf("-want +got\n%s", diff)
		}
	})
}

func TestWhatLeavesTheBoardLeavesTheMirror(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		trashed, archived := w.add("trashed", nil), w.add("archived", nil)
		moved, unshared := w.add("moved", nil), w.add("no longer shared", nil)
		w.add("stays", nil)
		late := w.add("trashed just before the full sync", nil)
		n := w.daemon(nil)
		time.Sleep(50 * time.Minute)
		mustDo(w, w.notion.TrashPage(trashed))
		mustDo(w, w.notion.ArchivePage(archived, true))
		w.moveAway(moved)
		w.unshare(unshared)
		time.Sleep(10*time.Minute - time.Second)
		mustDo(w, w.notion.TrashPage(late))
		time.Sleep(2 * time.Second) // an hour after the start
		if diff := cmp.Diff([]string{"stays"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
		mustDo(w, w.notion.RestorePage(trashed))
		mustDo(w, w.notion.MovePage(moved, w.tasks))
		mustDo(w, w.notion.SharePage(unshared))
		if done := n.sync(); done.Read != 4 || !done.Full {
			w.Errorf("sync = %+v, want four tasks", done)
		}
		if diff := cmp.Diff([]string{"moved", "no longer shared", "stays", "trashed"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
	})
}

// moveAway moves a task, as a person, to another database with properties of the same names.
func (w *world) moveAway(id string) {
	w.Helper()
	words, day := map[string]any{"rich_text": map[string]any{}}, map[string]any{"date": map[string]any{}}
	elsewhere, err := w.notion.CreateDatabase("Elsewhere", map[string]any{
		"Name": map[string]any{"title": map[string]any{}}, "claimed_by": words, "claim_token": words, "claimed_at": day,
		"status": map[string]any{"status": map[string]any{"options": []any{map[string]any{"name": "IN_PROGRESS"}, map[string]any{"name": "OPEN"}}}},
	})
	if err == nil {
		err = w.notion.MovePage(id, elsewhere)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// unshare revokes the connection's access to one task, as a person.
func (w *world) unshare(id string) {
	w.Helper()
	mustDo(w, w.notion.UnsharePage(id))
}

// An unshared database is a failure, not an empty board.
func TestAnUnsharedBoardIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("task", nil)
		held := w.add("held", nil)
		done := w.add("done", nil)
		n := w.daemon(nil)
		working, finished := n.mustClaim("Sandman", held), n.mustClaim("Oracle", done)
		mustDo(w, w.notion.Unshare(w.tasks))
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err == nil {
			w.Error("synced with a board that is not shared")
		}
		if got, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(finished.ID), "", api.CompleteRequest{})); err != nil || got.State != claim.Finishing {
			w.Errorf("complete = %q, %v; want it accepted", got.State, err)
		}
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"done", "held", "task"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
		if s := n.status(); !strings.Contains(s.Notion.LastError, "not shared") || !s.Mirror.Stale || s.ClaimsHeld != 1 || s.Outbox.Finishes != 1 {
			w.Errorf("status = %+v", s)
		}

		// Once it is shared again, everything is as before.
		mustDo(w, w.notion.Share(w.tasks))
		time.Sleep(10 * time.Minute)
		if got := w.page(done).Select("status"); got != "COMPLETED" {
			w.Errorf("the finished task is %s", got)
		}
		if err := n.complete(working); err != nil {
			w.Errorf("complete: %v", err)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"completed: Oracle", "completed: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

func TestAQueryThatFailsHalfWayChangesNothing(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range 250 {
			ids = append(ids, w.add(fmt.Sprintf("task %03d", i), nil))
		}
		n := w.daemon(quiet)
		before := n.titles()
		time.Sleep(10 * time.Minute)
		w.edit(ids[0], name("edited"))
		mustDo(w, w.notion.TrashPage(ids[1]))
		w.add("added", nil)
		remove := w.notion.Inject(emulator.Fault{Path: "/v1/data_sources/*/query", Skip: 1, Kind: emulator.HTML502})
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Errorf("err = %v, want notion_unavailable", err)
		}
		if diff := cmp.Diff(before, n.titles()); diff != "" {
			w.Errorf("tasks (-before +after):\n%s", diff)
		}
		remove()
		time.Sleep(30 * time.Second)
		if done := n.sync(); done.Changed != 2 || done.Gone != 1 && done.Changed != 3 {
			w.Errorf("sync = %+v, want two changes and one gone", done)
		}
	})
}

// Finished tasks stay for a while, and as long as an unfinished task depends on them.
func TestFinishedTasksAreKeptForAWhile(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		done := map[string]any{"status": option("status", "COMPLETED")}
		w.add("finished long ago", done)
		w.add("cancelled long ago", map[string]any{"status": option("status", "CANCELLED")})
		needed := w.add("finished long ago and needed", done)
		time.Sleep(48 * time.Hour)
		w.add("finished today", done)
		last := w.add("waits", map[string]any{"depends_on": relation(needed)})
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = 10 * time.Minute })
		if diff := cmp.Diff([]string{"finished long ago and needed", "finished today", "waits"}, n.titles()); diff != "" {
			w.Errorf("at first (-want +got):\n%s", diff)
		}
		cl := n.mustClaim("Sandman", last)
		mustDo(w, n.complete(cl))
		time.Sleep(23 * time.Hour)
		if diff := cmp.Diff([]string{"finished today", "waits"}, n.titles()); diff != "" {
			w.Errorf("a day later (-want +got):\n%s", diff)
		}
		time.Sleep(4 * time.Hour)
		if diff := cmp.Diff([]string{}, n.titles()); diff != "" {
			w.Errorf("in the end (-want +got):\n%s", diff)
		}
	})
}

func TestALargeBoard(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	const tasks, shown = 1250, 400
	// Each query returns only a part, as with Notion's limit of 10,000.
	inWorld(t, 180, func(w *world) {
		for i := range tasks {
			if i%150 == 0 {
				time.Sleep(time.Minute)
			}
			w.add(fmt.Sprint("Task ", i), nil)
		}
		mustDo(w, w.notion.SetQueryLimit(shown))
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
		_, err := n.claim("Sandman", "")
		problem, ok := errors.AsType[*api.Problem](err)
		if code(err) != denied(claim.CodeNotionUnavailable) || !ok || problem.RetryAfter == 0 {
			w.Errorf("next = %v, want notion_unavailable and when to try again", err)
		}
		cl, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 300}))
		if err != nil || cl.State != claim.Held {
			w.Errorf("got %+v, %v; want a claim", cl, err)
		}
		if s := n.status(); s.Mirror.Tasks != tasks || s.Mirror.Syncing != nil || s.Mirror.Stale {
			w.Errorf("mirror = %+v, want %d tasks", s.Mirror, tasks)
		}
		queries := 0
		for _, kind := range w.requests() {
			if kind == "POST query" {
				queries++
			}
		}
		if queries < 13 || queries > 25 {
			w.Errorf("%d queries, want about one for a hundred tasks", queries)
		}
		n.stop()

		// The next run has tasks to show from the beginning.
		n = w.start(o)
		if s := n.status(); s.Mirror.Syncing == nil || s.Mirror.Syncing.Percent == nil || *s.Mirror.Syncing.Percent > 90 || s.Mirror.Tasks != tasks {
			w.Errorf("while the board is read again, mirror = %+v (%+v)", s.Mirror, s.Mirror.Syncing)
		}
		n.mustClaim("Oracle", "")
	})
}

// Tasks that a sync has read can be claimed at once, even while the dependencies of other tasks are
// still being looked up.
func TestReadyDuringLookups(t *testing.T) {
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		var old []string
		for i := range 20 {
			old = append(old, w.add(fmt.Sprint("old ", i), map[string]any{"status": option("status", "COMPLETED")}))
		}
		time.Sleep(72 * time.Hour) // they are no longer listed
		ready := w.add("ready", nil)
		w.add("waits", map[string]any{"depends_on": relation(old...)})
		n := w.daemon(nil)
		if s := n.status(); s.Mirror.Stale || s.Mirror.Ready == 0 {
			w.Errorf("ready %d, stale %v; want something ready", s.Mirror.Ready, s.Mirror.Stale)
		}
		if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != ready {
			w.Errorf("claimed %q, want the task that is ready", cl.Task.Title)
		}
	})
}

// During a pause that Notion asked for, nobody waits for a sync, and questions are answered from
// the mirror, and say so.
func TestSyncInAPause(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("held", nil)
		n := w.daemon(nil)
		n.mustClaim("Sandman", "")
		time.Sleep(time.Minute)
		w.notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 4 * time.Minute, Times: 1})
		began := time.Now()
		time.Sleep(config.Default().Sync.Interval + 10*time.Second)
		for _, full := range []bool{false, true} {
			start := time.Now()
			_, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: full}))
			problem, ok := errors.AsType[*api.Problem](err)
			if !ok || code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 0 ||
				problem.RetryAfter < 180 || problem.RetryAfter > 270 {
				w.Errorf("sync (full: %v) = %v after %v, want notion_unavailable at once, and when to try again", full, err, time.Since(start))
			}
		}
		if list, err := client.Do(w.Context(), n.Client, api.OpListTasks, api.ListTasksInput{}); err != nil || !list.Stale {
			w.Errorf("tasks: %+v, %v; want them out of date", list.Age, err)
		}
		if s := n.status(); !s.Mirror.Stale || s.Notion.PausedUntil.IsZero() {
			w.Errorf("mirror = %+v, notion = %+v; want it out of date, and why", s.Mirror, s.Notion)
		}
		if _, err := n.claim("Oracle", ""); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Errorf("next = %v, want notion_unavailable", err)
		}
		time.Sleep(time.Until(began.Add(5 * time.Minute)))
		if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" {
			w.Errorf("after the pause, mirror = %+v, notion = %+v", s.Mirror, s.Notion)
		}
		if _, err := n.claim("Oracle", ""); code(err) != string(claim.CodeNothingReady) {
			w.Errorf("next = %v, want nothing_ready", err)
		}
	})
}

// An awaited sync ends when a pause begins, even if another request got the pause.
func TestSyncWhenAPauseBegins(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("task", nil)
		n := w.daemon(nil)
		time.Sleep(time.Minute + time.Second)
		w.notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 10 * time.Minute, Times: 1})
		start := time.Now()
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 10*time.Second {
			w.Errorf("sync = %v after %v, want notion_unavailable soon", err, time.Since(start))
		}
	})
}

// Nobody waits for a dependency that is read during a claim, either.
func TestADependencyInAPause(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		needed := w.add("finished long ago", map[string]any{"status": option("status", "COMPLETED")})
		time.Sleep(48 * time.Hour)
		id := w.add("task", nil)
		n := w.daemon(nil)
		w.edit(id, map[string]any{"depends_on": relation(needed)})
		w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + needed, Kind: emulator.RateLimited429, RetryAfter: 10 * time.Minute, Times: 1})
		start := time.Now()
		if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 5*time.Second {
			w.Errorf("claim = %v after %v, want notion_unavailable soon", err, time.Since(start))
		}
	})
}

// A listing of the whole board waits for the end of a usual pause, and continues where it was.
func TestAListingOutlastsAPause(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 400 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		w.notion.Inject(emulator.Fault{
			Path: "/v1/data_sources/*/query", Skip: 2, Times: 1, Kind: emulator.RateLimited429, RetryAfter: time.Minute,
		})
		n := w.daemon(nil)
		time.Sleep(30 * time.Second)
		if s := n.status(); s.Mirror.Syncing == nil || s.Mirror.Syncing.Read != 200 || !s.Mirror.Stale {
			w.Errorf("in the pause, mirror = %+v (%+v); want 200 tasks read", s.Mirror, s.Mirror.Syncing)
		}
		start := time.Now()
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{})); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 0 {
			w.Errorf("another sync = %v after %v, want notion_unavailable at once", err, time.Since(start))
		}
		time.Sleep(time.Minute)
		if s := n.status(); s.Mirror.Tasks != 400 || s.Mirror.Stale {
			w.Errorf("after it, mirror = %+v", s.Mirror)
		}
	})
}

// of matches the requests of a method for a page.
func of(method, id string) func(*http.Request, []byte) bool {
	return func(r *http.Request, _ []byte) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, id) }
}

// A late claim write is withdrawn even if the sync that saw it failed afterwards, or the daemon was
// stopped before it could react.
func TestLateClaimInASyncThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		restart bool
	}{{"and the next one goes well", false}, {"and the daemon is started anew", true}} {
		t.Run(c.name, func(t *testing.T) {
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
				if _, err := n.claim("Oracle", late); code(err) != denied(claim.CodeNotionUnavailable) {
					w.Fatalf("Oracle: %v, want notion_unavailable", err)
				}

				// Queries do not return trashed pages, so the daemon reads the page.
				w.trash(other)
				fails := w.notion.Inject(emulator.Fault{Kind: emulator.Error500, Match: of("GET", other)})
				time.Sleep(time.Until(began.Add(65 * time.Second)))
				if got := w.page(late).Text("claimed_by"); got != "Oracle" {
					w.Fatalf("the task is %q's, want the late write on it", got)
				}
				if s, err := client.Do(w.Context(), n.Client, api.OpStatus, struct{}{}); err != nil || s.Notion.LastError == "" {
					w.Fatalf("status %+v, %v: want the sync to fail", s.Notion, err)
				}
				if c.restart {
					n.stop()
				}
				fails()
				if c.restart {
					w.start(o)
				}

				time.Sleep(3 * time.Minute)
				if p := w.page(late); p.Select("status") != "OPEN" || p.Text("claimed_by") != "" {
					w.Errorf("the task is %s, by %q, with the token %q: want the late claim withdrawn", p.Select("status"), p.Text("claimed_by"), p.Text("claim_token"))
				}
			})
		})
	}
}

// home is the page of the emulator on which the databases lie.
const home = "9c1f0b6e-2a47-81d0-b3c5-7e6d5f4a3b21"

// TestBoardInTheTrash puts the board, or the page that it lies on, into Notion's trash. That is one
// state of the board: refusals and the status name it, nothing is written, and Notion is asked no
// more often because agents ask. Once it is restored, everything goes on.
func TestBoardInTheTrash(t *testing.T) {
	t.Parallel()
	for name, noticed := range map[string]func(w *world, n *node, free string) error{
		"by a claim": func(w *world, n *node, free string) error { _, err := n.claim("Sandman", free); return err },
		"by next": func(w *world, n *node, _ string) error {
			_, err := client.Do(w.Context(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman"}))
			return err
		},
		"by the interval, as a task is held": func(w *world, n *node, free string) error {
			time.Sleep(20 * time.Second)
			if s := n.status(); len(s.Warnings) == 0 {
				w.Error("the status warns of nothing")
			}
			_, err := n.claim("Sandman", free)
			return err
		},
		"by a sync": func(w *world, n *node, _ string) error {
			_, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				held, free := w.add("held", nil), w.add("free", nil)
				w.add("more", nil)
				n := w.daemon(nil)
				cl := n.mustClaim("Oracle", held)
				time.Sleep(time.Minute)
				mustDo(w, w.notion.TrashPage(home))
				w.notion.ResetRequests()
				sent := func(kind string) (n int) {
					for _, r := range w.requests() {
						if strings.HasPrefix(r, kind) {
							n++
						}
					}
					return n
				}
				refused := func(what string, err error) {
					w.Helper()
					if code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), "is in the trash: restore it") {
						w.Errorf("%s = %v, want notion_refused and the trash", what, err)
					}
				}
				refused(name, noticed(w, n, free))
				for range 3 {
					_, err := n.claim("Eve", free)
					refused("another claim", err)
				}
				if n := sent("PATCH"); n > 0 {
					w.Errorf("%d writes to a board in the trash", n)
				}
				w.notion.ResetRequests()
				time.Sleep(5 * time.Minute)
				if asked := sent("GET data_sources/"); asked < 4 || asked > 5 {
					w.Errorf("asked %d times in five minutes: %q", asked, w.requests())
				}
				if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], "is in the trash") {
					w.Errorf("warnings %q", s.Warnings)
				}
				mustDo(w, w.notion.RestorePage(home))
				time.Sleep(80 * time.Second)
				if s := n.status(); len(s.Warnings) > 0 {
					w.Errorf("restored, warnings %q", s.Warnings)
				}
				mustDo(w, n.complete(cl))
				n.mustClaim("Sandman", free)
			})
		})
	}
}

// A database among the tasks, as in wikis, is skipped and reported; the tasks are synced and
// claimed.
func TestADatabaseAmongTheTasks(t *testing.T) {
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		if _, err := w.notion.CreateRowDatabase(w.tasks, "Handbook", map[string]any{"Name": typed("title")}); err != nil {
			w.Fatal(err)
		}
		later := w.add("later", nil)
		time.Sleep(61 * time.Minute) // until after a full sync
		for _, id := range []string{id, later} {
			if err := n.complete(n.mustClaim("Sandman", id)); err != nil {
				w.Error(err)
			}
		}
		s := n.status()
		if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], `"Handbook" (`) || s.Mirror.Stale || s.Notion.LastError != "" {
			w.Errorf("warnings %q, stale %v, error %q", s.Warnings, s.Mirror.Stale, s.Notion.LastError)
		}
	})
}

// An id of something else than a database is identified at the start.
func TestIDsOfOtherThings(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		linked, err := w.notion.LinkDatabase(w.tasks)
		if err != nil {
			w.Fatal(err)
		}
		tasks, source := w.tasks, w.second(w.tasks, "Ideas")
		for id, says := range map[string]string{
			linked:                                 "a linked view of another database",
			source:                                 "use that of its database, " + tasks,
			w.add("work", nil):                     "is the id of a page",
			"12345678-1234-1234-1234-123456789abc": "copy it anew",
		} {
			w.mentions(w.startError(func(c *config.Config) { c.Databases.Tasks = id }), "databases.tasks: ", says)
		}
	})
}

// The parts come before the whole, whoever does them; a part that fell away does not count. The
// page decides, not what the mirror shows of it. Without the column nothing is claimed.
func TestPartsComeBeforeTheWhole(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		schema := func(to any) { mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Sub-item": to})) }
		schema(map[string]any{"relation": map[string]any{"database_id": w.tasks, "single_property": map[string]any{}}})
		first, second := w.add("first part", nil), w.add("second part", nil)
		whole := w.add("whole", map[string]any{"Sub-item": relation(first, second)})
		n := w.daemon(func(c *config.Config) { c.Tasks.Properties.SubItems = "Sub-item" })
		ready := func(want ...string) {
			w.Helper()
			time.Sleep(2 * interval)
			if got := n.ready("Sandman"); !slices.Equal(got, want) {
				w.Errorf("ready: %q, want %q", got, want)
			}
		}
		ready("first part", "second part")
		if _, err := n.claim("Sandman", whole); code(err) != "blocked_by_dependency" {
			w.Errorf("claim of the whole: %v", err)
		}
		mustDo(w, w.notion.EditPage(first, map[string]any{"status": option("status", "CANCELLED")}))
		ready("second part")
		_, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(n.mustClaim("Sandman", second).ID), "", api.CompleteRequest{}))
		mustDo(w, err)
		ready("whole")
		third := w.add("third part", nil)
		mustDo(w, w.notion.EditPage(whole, map[string]any{"Sub-item": relation(first, second, third)}))
		if _, err := n.claim("Sandman", whole); code(err) != "blocked_by_dependency" {
			w.Errorf("claim of the whole, which just got another part: %v", err)
		}
		_, err = client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(n.mustClaim("Sandman", third).ID), "", api.CompleteRequest{}))
		mustDo(w, err)
		ready("whole")
		schema(nil)
		if _, err := n.claim("Sandman", whole); code(err) != "notion_refused" {
			w.Errorf("a claim without the column: %v", err)
		}
	})
}
