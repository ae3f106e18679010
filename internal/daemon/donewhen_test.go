package daemon_test

import (
	"testing"
	"time"

	"dibs/config"
)

// What the board says of when a task is done comes with the claim. A column that goes, or was never
// there, stops nothing.
func TestDoneWhen(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		use := func(c *config.Config) { quiet(c); c.Tasks.Properties.DoneWhen = "Done when" }
		n := w.daemon(use)
		id := w.add("Fix the login", nil)
		cl := n.mustClaim("Sandman", id)
		if cl.Task.DoneWhen != "" {
			w.Errorf("without the column: %q", cl.Task.DoneWhen)
		}
		mustDo(w, n.complete(cl))
		n.stop()

		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Done when": typed("rich_text")}))
		id = w.add("Write the report", map[string]any{"Done when": text("rich_text", "Maria\nhas \x1b[31mread it")})
		n = w.daemon(use)
		if cl = n.mustClaim("Sandman", id); cl.Task.DoneWhen != "Maria\nhas read it" || n.task(id).DoneWhen != cl.Task.DoneWhen {
			w.Errorf("done when %q", cl.Task.DoneWhen)
		}
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Done when": nil}))
		time.Sleep(2 * time.Hour)
		n.sync()
		mustDo(w, n.complete(n.mustClaim("Sandman", w.add("Order paper", nil))))
	})
}
