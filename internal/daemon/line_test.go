package daemon_test

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"

	"github.com/google/go-cmp/cmp"
)

// logsAgree checks that a Notion log has the facts that the daemons recorded for it, each once, and
// nothing else.
func (w *world) logsAgree(nodes ...*node) {
	w.Helper()
	want := map[claim.Log][]string{}
	for _, n := range nodes {
		events, err := n.Log(w.Context(), api.LogFilter{Limit: 1000})
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range events.Entries {
			for _, log := range (claim.Fact{Kind: e.Kind, Remote: e.Remote}).Logs() {
				want[log] = append(want[log], e.ID)
			}
		}
	}
	dbs := w.notion.Databases()
	for log, db := range map[claim.Log]string{claim.MeshLog: dbs.MeshLog, claim.TaskLog: dbs.TaskLog} {
		var got []string
		for _, p := range w.notion.Pages(db) {
			got = append(got, p.Text("entry_id"))
		}
		slices.Sort(want[log])
		slices.Sort(got)
		if diff := cmp.Diff(want[log], got); diff != "" {
			w.Errorf("entries of the %s log (-on record +in Notion):\n%s", log, diff)
		}
	}
}

// noBlindRepeats checks that no daemon wrote a page twice without reading it in between, or created
// an entry again without looking it up, and that the transport repeated no request.
func (w *world) noBlindRepeats(lines ...*line) {
	w.Helper()
	sent := 0
	for _, l := range lines {
		blind := make(map[string]bool) // pages, and bodies of entries, written and not read since
		for _, r := range l.requests() {
			switch {
			case r.method == http.MethodPost && strings.HasSuffix(r.path, "/query"):
				if id := soughtEntry.FindStringSubmatch(r.body); id != nil {
					maps.DeleteFunc(blind, func(body string, _ bool) bool { return strings.Contains(body, id[1]) })
				}
			case r.method == http.MethodGet:
				delete(blind, r.path)
			default:
				sent++
				what := r.path
				if r.method == http.MethodPost {
					what = r.body
				}
				if blind[what] {
					w.Errorf("daemon %s repeated without a look: %s %s %s", l.name, r.method, r.path, r.body)
				}
				blind[what] = true
			}
		}
	}
	arrived := 0
	for _, r := range w.notion.Requests() {
		if r.Method != http.MethodGet && !strings.HasSuffix(r.Path, "/query") {
			arrived++
		}
	}
	if arrived != sent {
		w.Errorf("%d writes arrived, %d were sent", arrived, sent)
	}
}

// soughtEntry matches the lookup of an entry.
var soughtEntry = regexp.MustCompile(`"equals":"([0-9A-HJKMNP-TV-Z]{26})"`)

// line is a daemon's connection to Notion: it records requests, and can limit faults to one daemon.
type line struct {
	name string
	next http.RoundTripper

	mu   sync.Mutex
	sent []sentRequest
}

type sentRequest struct{ method, path, body string }

// lineHeader identifies a request's line.
const lineHeader = "X-Line"

// onLine starts a daemon on its own line.
func (w *world) onLine(name string, change func(*config.Config)) (*node, *line) {
	w.Helper()
	o := w.options(change)
	l := &line{name: name, next: o.Transport}
	o.Transport = l
	return w.start(o), l
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	note := sentRequest{method: r.Method, path: r.URL.Path}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		note.body = string(data)
	}
	l.mu.Lock()
	l.sent = append(l.sent, note)
	l.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set(lineHeader, l.name)
	return l.next.RoundTrip(r)
}

// sends reports whether r came over this line.
func (l *line) sends(r *http.Request) bool { return r.Header.Get(lineHeader) == l.name }

func (l *line) requests() []sentRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}
