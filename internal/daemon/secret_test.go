package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
)

// echo is a server that repeats the token wherever it can: in the titles of pages and, if failing,
// in errors.
type echo struct {
	next    http.RoundTripper
	mu      sync.Mutex
	failing func(*http.Request) bool
	said    int
}

func (e *echo) RoundTrip(req *http.Request) (*http.Response, error) {
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != nil && e.failing(req) {
		e.said++
		body := fmt.Sprintf(`{"object":"error","status":400,"code":"invalid_request","message":"the header Authorization: Bearer %s is not welcome","request_id":%[1]q}`, token)
		return &http.Response{
			StatusCode: 400, Header: http.Header{"X-Notion-Request-Id": {token}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
	resp, err := e.next.RoundTrip(req)
	if err != nil || !strings.HasPrefix(req.URL.Path, "/v1/pages") && !strings.HasSuffix(req.URL.Path, "/query") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if bytes.Contains(body, []byte("TOKEN")) {
		e.said++
	}
	body = bytes.ReplaceAll(body, []byte("TOKEN"), []byte(token))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, err
}

func (e *echo) fail(failing func(*http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failing = failing
}

// TestTokenIsNowhere runs a daemon at debug level with a server that repeats the token, and
// searches everything that the daemon writes for it.
func TestTokenIsNowhere(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, other := w.add("title with TOKEN in it", nil), w.add("other", nil)
		server := &echo{next: w.notion.Client().Transport}
		var text, structured bytes.Buffer
		o := w.options(nil)
		o.Transport = server
		options := &slog.HandlerOptions{Level: slog.LevelDebug}
		o.Log = slog.New(slog.NewMultiHandler(slog.NewTextHandler(&text, options), slog.NewJSONHandler(&structured, options)))
		n := w.start(o)

		shown := new(strings.Builder)
		note := func(v any, err error) { fmt.Fprintf(shown, "%+v %v\n", v, err) }
		cl := n.mustClaim("Sandman", id)
		note(cl, nil)
		server.fail(func(*http.Request) bool { return true })
		note(n.claim("Oracle", other))
		note(n.Renew(w.Context(), string(cl.ID), api.RenewRequest{}, ""))
		note(n.Complete(w.Context(), string(cl.ID), api.CompleteRequest{Summary: "done"}, ""))
		note(n.Sweep(w.Context(), ""))
		time.Sleep(10 * time.Minute) // syncs, deliveries and the claim's end fail
		status, err := n.Status(w.Context())
		note(status, err)
		if !strings.Contains(status.Notion.LastError+status.Outbox.LastError, "[redacted]") {
			w.Errorf("the status does not tell of an error with the token: %+v", status)
		}
		server.fail(nil)
		time.Sleep(time.Hour)
		note(n.Log(w.Context(), api.LogFilter{}))
		note(n.Claims(w.Context(), ""))
		for _, path := range []string{"/v1/status", "/v1/log", "/v1/tasks", "/v1/claims/" + string(cl.ID), "/metrics", "/openapi.json", "/v1/events?after=0&follow=false"} {
			shown.WriteString(n.get(path))
		}
		n.stop()

		token := w.notion.Token()
		places := map[string]string{"answers": shown.String(), "log": text.String(), "JSON log": structured.String(), "configuration": fmt.Sprintf("%v %+v %#v", o.Config, o.Config, o.Config)}
		files, err := filepath.Glob(filepath.Join(n.dir, "*"))
		if err != nil || len(files) < 2 {
			w.Fatalf("files %v, %v", files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				w.Fatal(err)
			}
			places[file] = string(data)
		}
		dbs := w.notion.Databases()
		for _, p := range append(w.notion.Pages(dbs.MeshLog), w.notion.Pages(dbs.TaskLog)...) {
			places["logs in Notion"] += fmt.Sprintf("%+v\n", p)
		}
		for place, content := range places {
			if strings.Contains(content, token) {
				i := strings.Index(content, token)
				w.Errorf("%s: the token, after %q", place, content[max(0, i-200):i])
			}
		}
		for _, place := range []string{"answers", "log", "JSON log", "logs in Notion"} {
			if !strings.Contains(places[place], "[redacted]") {
				w.Errorf("%s: nothing was redacted, so nothing was tried", place)
			}
		}
		for _, line := range []string{" event=granted ", " event=notion_refused ", " event=completed "} {
			found := false
			for said := range strings.Lines(text.String()) {
				found = found || strings.Contains(said, line) && strings.Contains(said, "[redacted]")
			}
			if !found {
				w.Errorf("no line with %s and the place of the token", line)
			}
		}
		if server.said < 20 {
			w.Errorf("the server said the token %d times only", server.said)
		}
	})
}
