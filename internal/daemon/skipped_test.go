package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
)

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
