package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/testkit"
)

// TestServersOfOneVersion runs the whole life of claims on servers that support only one version of
// the API.
func TestServersOfOneVersion(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for version, d := range map[string]dialect{
		"2025-09-03": {"status", "rich_text", "default", "default", "there", "there", "select", "there", "full"},
		"2026-03-11": {"status", "rich_text", "german", "german", "there", "there", "status", "there", "useful"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				mustDo(w, w.notion.SetVersions(version))
				speaking(w, d).cycle()
				for _, r := range w.notion.Requests() {
					if r.Method == "POST" && r.Path == "/v1/pages" && !strings.Contains(string(r.Body), `"parent":{"data_source_id":`) {
						w.Errorf("a page was made by %s", r.Body)
					}
				}
			})
		})
	}
}

// A version that is withdrawn while claims are live affects nobody.
func TestSunsetOfAVersion(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		id := w.add("work", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		for _, versions := range [][]string{{"2025-09-03", "2026-03-11"}, {"2026-03-11"}} {
			mustDo(w, w.notion.SetVersions(versions...))
			time.Sleep(20 * time.Minute)
			if s := n.status(); len(s.Warnings) != 0 || s.Notion.LastError != "" || s.Outbox.Depth != 0 || s.Mirror.Stale {
				w.Errorf("warnings %q, error %q, %d owed", s.Warnings, s.Notion.LastError, s.Outbox.Depth)
			}
			if err := n.complete(cl); err != nil {
				w.Error(err)
			}
			cl = n.mustClaim("Sandman", w.add("more", nil))
			n.stop()
			n = w.start(o)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		n.stop()
		if got := len(w.work()); got != 3 {
			w.Errorf("%d entries of work, want 3", got)
		}
	})
}
