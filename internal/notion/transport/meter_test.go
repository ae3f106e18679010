package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What Notion refuses has a line, and not one for every sync: the next one, after an hour, says how
// many there were. What passes by itself has none.
func TestRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newRefusals(slog.New(slog.NewTextHandler(&out, nil)))
		refuse := func(kind string, status int, code string) string {
			out.Reset()
			r.note(kind, &APIError{Status: status, Code: code, Message: "go away"})
			_, line, _ := strings.Cut(strings.TrimSpace(out.String()), `msg="Notion refused a request" `)
			return line
		}
		want := func(got, kind string, status int, code string, count int) {
			t.Helper()
			if line := fmt.Sprintf(`event=notion_refused request=%s status=%d code=%s count=%d reason="go away"`, kind, status, code, count); got != line {
				t.Errorf("%s, want %s", got, line)
			}
		}
		want(refuse("pages.get", 400, "validation_error"), "pages.get", 400, "validation_error", 1)
		for range 120 {
			if line := refuse("pages.get", 400, "validation_error"); line != "" {
				t.Errorf("again, within the hour: %s", line)
			}
			time.Sleep(29 * time.Second)
		}
		want(refuse("pages.get", 401, "unauthorized"), "pages.get", 401, "unauthorized", 1)
		want(refuse("databases.query", 400, "validation_error"), "databases.query", 400, "validation_error", 1)
		time.Sleep(time.Hour)
		want(refuse("pages.get", 400, "validation_error"), "pages.get", 400, "validation_error", 121)
		if line := refuse("pages.get", 409, "conflict_error") + refuse("pages.get", 503, "service_unavailable") + refuse("pages.get", 429, "rate_limited"); line != "" {
			t.Errorf("what passes by itself: %s", line)
		}
	})
}
