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
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// titles returns the titles of the daemon's tasks, sorted.
func (n *node) titles() []string {
	n.w.Helper()
	list, err := n.Tasks(n.w.Context(), api.TaskFilter{})
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
	s, err := n.Status(n.w.Context())
	if err != nil {
		n.w.Fatal(err)
	}
	return s
}

// task returns one of the daemon's tasks.
func (n *node) task(id string) api.Task {
	n.w.Helper()
	t, err := n.Task(n.w.Context(), task.ID(id))
	if err != nil {
		n.w.Fatal(err)
	}
	return t
}

// sync reads the whole board.
func (n *node) sync() api.Sync {
	n.w.Helper()
	done, err := n.Sync(n.w.Context(), api.SyncRequest{Full: true}, "")
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
		if _, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, ""); err == nil {
			w.Error("synced with a board that is not shared")
		}
		if got, err := n.Complete(w.Context(), string(finished.ID), api.CompleteRequest{}, ""); err != nil || got.State != claim.Finishing {
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
		if _, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, ""); code(err) != denied(claim.CodeNotionUnavailable) {
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
		cl, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 300}, "")
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
