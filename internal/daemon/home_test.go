package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
)

// A state directory belongs to one tasks database: with another one the daemon does not start, and
// nothing of the first is lost.
func TestStateDirectoryOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"": false, "without Notion": true} {
		t.Run("refused "+name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				other, err := w.notion.CreateDatabase("Errands", map[string]any{
					"Name": map[string]any{"title": map[string]any{}}, "claimed_by": map[string]any{"rich_text": map[string]any{}},
					"claimed_at": map[string]any{"date": map[string]any{}}, "status": map[string]any{"select": map[string]any{}},
				})
				if err != nil {
					w.Fatal(err)
				}
				id := w.add("held", nil)
				o := w.options(nil)
				n := w.start(o)
				cl := n.mustClaim("Sandman", id)
				n.stop()

				wrong := o
				wrong.Config.Databases.Tasks, wrong.Listener = other, server.NewPipe()
				remove := func() {}
				if without {
					remove = w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
				}
				_, err = daemon.Start(w.Context(), wrong)
				says := []string{`"Tasks" (` + w.tasks + `) in workspace "`, other, "state_dir", o.Config.StateDir, "nothing was changed"}
				if !without {
					says = append(says, `"Errands"`)
				}
				for _, want := range says {
					if err == nil || !strings.Contains(err.Error(), want) {
						w.Fatalf("start = %v, want it refused, and %s", err, want)
					}
				}
				remove()
				time.Sleep(time.Minute)

				n = w.start(o)
				if got, err := n.Lookup(w.Context(), string(cl.ID), ""); err != nil || got.State != claim.Held || w.page(id).Text("claim_token") != string(cl.ID) {
					w.Errorf("the claim: %s, %v; the page shows %q", got.State, err, w.page(id).Text("claim_token"))
				}
			})
		})
	}
}

// Another form of its id still means the same database.
func TestStateDirectoryOfTheSameDatabase(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		w.start(o).stop()
		o.Config.Databases.Tasks = strings.ReplaceAll(w.tasks, "-", "")
		w.start(o).stop()
		defer w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})()
		w.start(o).stop()
	})
}
