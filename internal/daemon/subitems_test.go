package daemon_test

import (
	"slices"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
)

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
		_, err := n.Complete(w.Context(), string(n.mustClaim("Sandman", second).ID), api.CompleteRequest{}, "")
		mustDo(w, err)
		ready("whole")
		third := w.add("third part", nil)
		mustDo(w, w.notion.EditPage(whole, map[string]any{"Sub-item": relation(first, second, third)}))
		if _, err := n.claim("Sandman", whole); code(err) != "blocked_by_dependency" {
			w.Errorf("claim of the whole, which just got another part: %v", err)
		}
		_, err = n.Complete(w.Context(), string(n.mustClaim("Sandman", third).ID), api.CompleteRequest{}, "")
		mustDo(w, err)
		ready("whole")
		schema(nil)
		if _, err := n.claim("Sandman", whole); code(err) != "notion_refused" {
			w.Errorf("a claim without the column: %v", err)
		}
	})
}
