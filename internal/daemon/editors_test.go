package daemon_test

import (
	"strings"
	"testing"

	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// Whoever ends a claim in Notion, a person, a connection or one of Notion's own agents, is named to
// the agent and in the log, unless the connection may not read users.
func TestEditorsAreNamed(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		cleaner, err := w.notion.AddBot("Cleaner", false)
		mustDo(w, err)
		helper, err := w.notion.AddBot("Helper\nof Notion", true)
		mustDo(w, err)
		ada, err := w.notion.AddPerson("Ada", "")
		mustDo(w, err)
		eve, err := w.notion.AddPerson("Eve", "")
		mustDo(w, err)
		for _, tt := range []struct{ user, name string }{{ada, "Ada"}, {cleaner, "Cleaner"}, {helper, "Helper of Notion"}, {ada, "Ada"}, {eve, ""}} {
			if tt.name == "" {
				w.notion.Inject(emulator.Fault{Path: "/v1/users", Kind: emulator.Forbidden403})
			}
			id := w.add("Alpha", nil)
			n.mustClaim("Sandman", id)
			n.react("Sandman", 0)
			w.notion.ResetRequests()
			mustDo(w, w.notion.EditPageAs(tt.user, id, map[string]any{"status": option("status", "CANCELLED")}))
			n.sync()
			got := strings.Join(n.react("Sandman", 0), "\n")
			want := "its status was set to CANCELLED (" + tt.name + " edited the card last)"
			if tt.name == "" {
				want = "its status was set to CANCELLED"
			}
			if !strings.HasSuffix(got, want) {
				w.Errorf("told %q, want %q", got, want)
			}
			asked := 0
			for _, r := range w.notion.Requests() {
				if strings.HasPrefix(r.Path, "/v1/users/") {
					asked++
				}
			}
			if asked > 1 {
				w.Errorf("%d requests for the name of %s", asked, tt.name)
			}
		}
	})
}
