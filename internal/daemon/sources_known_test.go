package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// A daemon whose databases get further data sources continues with the known ones, says so, and
// does so after a restart, too.
func TestDataSourcesThatAreRecognised(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		first, second, third := w.add("first", nil), w.add("second", nil), w.add("third", nil)
		o := w.options(nil)
		n := w.start(o)
		held := n.mustClaim("Sandman", first)
		mine := w.notion.Databases()
		ideas := w.second(mine.Tasks, "Ideas")
		idea, err := w.notion.CreatePage(ideas, name("idea"))
		if err != nil {
			w.Fatal(err)
		}
		for _, log := range []string{mine.TaskLog, mine.MeshLog} {
			w.second(log, "Chatter")
		}
		cl := n.mustClaim("Oracle", second)
		time.Sleep(20 * time.Second)
		if err := n.complete(held); err != nil {
			w.Error(err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		if _, err := n.claim("Oracle", idea); code(err) != denied(claim.CodeNotFound) {
			w.Errorf("a row of the other data source: err = %v, want not_found", err)
		}
		w.edit(third, name("edited"))
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"edited", "first", "second"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
		if s := n.status(); len(s.Warnings) != 3 || !strings.Contains(s.Warnings[0], "set databases.tasks_source") || !strings.Contains(strings.Join(s.Warnings, "\n"), "the task log has several data sources now") || s.Outbox.Depth != 0 || s.Notion.LastError != "" {
			w.Errorf("warnings %q, %d owed, error %q", s.Warnings, s.Outbox.Depth, s.Notion.LastError)
		}
		if diff := cmp.Diff([]string{"completed: Oracle", "completed: Sandman"}, w.work()); diff != "" {
			w.Errorf("task log (-want +got):\n%s", diff)
		}
		if p, _ := w.notion.Page(idea); p.Edited != p.Created {
			w.Error("a row of the other data source was touched")
		}
		n.stop()

		n = w.start(o)
		if err := n.complete(n.mustClaim("Sandman", third)); err != nil {
			w.Error(err)
		}
	})
}
