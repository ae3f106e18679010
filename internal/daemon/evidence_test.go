package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/api"

	"github.com/google/go-cmp/cmp"
)

// What shows that work was done is on the card and in the task log.
func TestEvidence(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		mustDo(w, w.notion.EditSchema(w.notion.Databases().TaskLog, map[string]any{"Proof": typed("rich_text")}))
		id := w.add("Fix the login", nil)
		n := w.daemon(quiet)
		cl := n.mustClaim("Sandman", id)
		done, err := n.Complete(w.Context(), string(cl.ID), api.CompleteRequest{Summary: "fixed", Evidence: []string{"commit\n1f\u202e3a", "", "go test: 0", strings.Repeat("ü", 1000)}}, "")
		mustDo(w, err)
		long := strings.Repeat("ü", 499) + "…"
		if diff := cmp.Diff([]string{"commit 1f3a", "go test: 0", long}, done.Evidence); diff != "" {
			w.Errorf("(-want +got):\n%s", diff)
		}
		if note := w.page(id).Text("note"); !strings.HasPrefix(note, "Done: fixed (commit 1f3a; go test: 0; üü") {
			w.Errorf("the note is %q", note)
		}
		time.Sleep(time.Minute)
		for _, p := range w.notion.Pages(w.notion.Databases().TaskLog) {
			if got := p.Text("Proof"); got != "commit 1f3a; go test: 0; "+long {
				w.Errorf("the task log has %q", got)
			}
		}
	})
}
