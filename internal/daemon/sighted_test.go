package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
)

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
				if s, err := n.Status(w.Context()); err != nil || s.Notion.LastError == "" {
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
