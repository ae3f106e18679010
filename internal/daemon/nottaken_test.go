package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/testkit"
)

// refusing answers the creation of certain entries itself.
type refusing struct {
	next   http.RoundTripper
	strike func(body []byte) bool
	status int
	answer string

	struck atomic.Int32
	mended atomic.Bool
}

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.mended.Load() || req.Method != http.MethodPost || req.URL.Path != "/v1/pages" {
		return r.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	if !r.strike(body) {
		return r.next.RoundTrip(req)
	}
	r.struck.Add(1)
	return &http.Response{
		StatusCode: r.status, Header: http.Header{
			"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)},
		},
		Body: io.NopCloser(strings.NewReader(r.answer)), Request: req,
	}, nil
}

// TestWhatIsNotTakenHoldsUpNothingElse refuses one entry, or all entries of one log, for good. All
// others are delivered, the refused ones are reported and kept, and they are not retried over and
// over.
func TestWhatIsNotTakenHoldsUpNothingElse(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		answer string
	}{
		"500":        {status: 500, answer: `{"object":"error","status":500,"code":"internal_server_error","message":"Unexpected"}`},
		"403":        {status: 403, answer: `{"object":"error","status":403,"code":"restricted_resource","message":"No"}`},
		"409":        {status: 409, answer: `{"object":"error","status":409,"code":"conflict_error","message":"Conflict"}`},
		"unreadable": {status: 200, answer: `{"object":"page","id":7`},
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, whole log: %v", name, whole), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					o := w.options(quiet)
					line := &refusing{next: o.Transport, status: answer.status, answer: answer.answer}
					line.strike = func(body []byte) bool {
						return bytes.Contains(body, []byte(`“poison”`)) && bytes.Contains(body, []byte("granted"))
					}
					if whole {
						log := []byte(w.notion.DataSource(w.notion.Databases().MeshLog))
						line.strike = func(body []byte) bool { return bytes.Contains(body, log) }
					}
					o.Transport = line
					n := w.start(o)
					const tasks = 12
					for i := range tasks {
						title := fmt.Sprint("task ", i)
						if i == 3 {
							title = "poison"
						}
						mustDo(w, n.complete(n.mustClaim("Sandman", w.add(title, nil))))
					}
					time.Sleep(5 * time.Second)
					mesh := tasks - 1
					if whole {
						mesh = 0
					}
					if got := len(w.work()); got != tasks {
						w.Errorf("%d entries in the task log, want %d", got, tasks)
					}
					if got := len(w.mesh()); got != mesh {
						w.Errorf("%d entries in the mesh log, want %d", got, mesh)
					}
					time.Sleep(10 * time.Minute)
					want := "of the mesh log, \"Sandman claimed “poison”\", is not taken: "
					if whole {
						want = "the mesh log takes no entries: "
					}
					s, err := n.Status(w.Context())
					if err != nil || !strings.Contains(strings.Join(s.Warnings, "\n"), want) || s.Outbox.Depth != tasks-mesh {
						w.Errorf("warnings %q, outbox %+v, %v; want %q", s.Warnings, s.Outbox, err, want)
					}
					time.Sleep(time.Hour)
					if got := line.struck.Load(); got > 80 || !whole && got > 12 {
						w.Errorf("asked %d times in an hour, want a few times", got)
					}
					line.mended.Store(true)
					time.Sleep(25 * time.Minute)
					if got := len(w.mesh()); got != tasks {
						w.Errorf("%d entries in the mesh log in the end, want %d", got, tasks)
					}
					if s, err := n.Status(w.Context()); err != nil || len(s.Warnings) > 0 || s.Outbox != (api.OutboxStatus{}) {
						w.Errorf("warnings %q, outbox %+v, %v in the end; want none", s.Warnings, s.Outbox, err)
					}
				})
			})
		}
	}
}
