package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// setsRow is a row of the table of requests that set tasks to another status.
var setsRow = regexp.MustCompile("(?m)^\\| (`[A-Z]+ /v1/.*`) \\|([A-Z_ ]*)\\|([A-Z_ ]*)\\|$")

var inWhoseName = []string{" in an agent's name", " in nobody's"}

// Every request sets tasks to those statuses that docs/threats.md says, in an agent's name and in
// nobody's, whatever status it asks for. It goes through all operations that there are.
func TestWhoSetsWhat(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	doc, err := os.ReadFile("../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := make(map[string][]string), make(map[string][]string)
	for _, row := range setsRow.FindAllStringSubmatch(string(doc), -1) {
		for _, request := range strings.Split(strings.Trim(row[1], "`"), "`, `") {
			for i, whose := range inWhoseName {
				if sets := strings.Fields(row[2+i]); len(sets) > 0 {
					want[request+whose] = sets
				}
			}
		}
	}
	for _, review := range []config.Review{config.ReviewAsked, config.ReviewAlways} {
		inWorld(t, 0, func(w *world) {
			for _, name := range []string{"REVIEW", "FAILED"} {
				mustDo(w, w.notion.AddOption(w.tasks, "status", name))
			}
			n := w.daemon(func(c *config.Config) {
				c.Tasks.Statuses.Review, c.Tasks.Statuses.Failed, c.Claim.Review, c.Claim.MaxAttempts = "REVIEW", "FAILED", review, 2
				c.Schedule.Sweep = "@every 1000h"
			})
			for _, op := range api.Operations() {
				// What writes nothing sets nothing; and the answer of a stream does not end.
				if op.Meter == "" || op.Sends != "" || review == config.ReviewAlways && op != api.OpComplete.Operation {
					continue
				}
				for i, whose := range inWhoseName {
					for _, to := range n.tries(op, i == 0) {
						if is := got[op.Pattern()+whose]; !slices.Contains(is, to) {
							got[op.Pattern()+whose] = append(is, to)
						}
					}
				}
			}
		})
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("what requests set tasks to (-docs/threats.md +here):\n%s", diff)
	}
}

// tries requests op of tasks in all states that matter to it, in Sandman's name or in nobody's, and
// returns the statuses that they get.
func (n *node) tries(op *api.Operation, asAgent bool) (sets []string) {
	w := n.w
	w.Helper()
	states, bodies := []string{"held"}, []string{`{}`}
	switch op {
	case api.OpClaim.Operation:
		states, bodies = []string{"OPEN"}, []string{`{"agent":"Sandman","task":"{id}"}`}
	case api.OpAccept.Operation, api.OpDecline.Operation:
		states, bodies = []string{"offered"}, []string{`{"agent":"Sandman"}`}
	case api.OpFail.Operation:
		states, bodies = []string{"held", "tried"}, []string{`{}`, `{"reopen":true}`}
	case api.OpAsk.Operation:
		bodies = []string{`{"text":"so?"}`}
	case api.OpOffer.Operation:
		states, bodies = []string{"OPEN", "held"}, []string{`{"agent":"Sandman","to":"Oracle"}`}
	case api.OpComment.Operation:
		bodies = []string{`{"agent":"Sandman","text":"so"}`, `{"text":"so"}`}
	case api.OpAddTask.Operation:
		bodies = []string{`{"agent":"Sandman","title":"more"}`, `{"title":"more"}`}
	case api.OpSend.Operation:
		bodies = []string{`{"from":"Sandman","to":"Oracle","text":"hello"}`, `{"to":"Oracle","text":"hello"}`}
	case api.OpAck.Operation, api.OpAckAny.Operation:
		bodies = []string{`{"ids":["x"]}`}
	case api.OpReserve.Operation:
		bodies = []string{`{"agent":"Sandman","targets":[{"pattern":"name:db","at":[{"in":"names","path":"/db"}]}]}`}
	case api.OpPause.Operation:
		bodies = []string{`{"agent":"Merlin"}`}
	case api.OpSweep.Operation:
		states = []string{"stale", "tried and stale"}
	case api.OpUnreserve.Operation, api.OpRenewWebhook.Operation, api.OpAdoptCluster.Operation:
		bodies = []string{``}
	case api.OpReopen.Operation:
		states, bodies = []string{"FAILED", "held"}, nil
		for _, s := range task.AllStatuses() {
			asks := `"was":"{was}","status":"` + string(s) + `"}`
			bodies = append(bodies, `{"agent":"Sandman",`+asks, `{`+asks)
		}
	}
	for _, state := range states {
		for _, body := range bodies {
			// A claim is its agent's, whether the request names it or not.
			if asAgent != (strings.Contains(body, "Sandman") || strings.HasPrefix(op.Path, "/v1/claims/")) {
				continue
			}
			id := n.in(state)
			was := w.page(id).Select("status")
			path := strings.NewReplacer("{id}", id, "{name}", "Sandman").Replace(op.Path)
			n.request(op.Method, path, strings.NewReplacer("{id}", id, "{was}", was).Replace(body), "")
			time.Sleep(5 * time.Second)
			if is := w.page(id).Select("status"); is != was {
				sets = append(sets, is)
			}
		}
	}
	return sets
}

// in makes a task that is in that state: held by Sandman, who has failed once at one that was tried,
// offered to Sandman, stale, or of a status that nobody has.
func (n *node) in(state string) (id string) {
	w := n.w
	w.Helper()
	fails := func() {
		_, err := client.Do(w.Context(), n.Client, api.OpFail, api.On(string(n.mustClaim("Sandman", id).ID), "", api.FailRequest{Reopen: true}))
		mustDo(w, err)
	}
	id = w.add(state, nil)
	switch state {
	case "held":
		n.mustClaim("Sandman", id)
	case "tried":
		fails()
		n.mustClaim("Sandman", id)
	case "offered":
		_, err := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(id), "", api.OfferRequest{Agent: "Oracle", To: "Sandman"}))
		mustDo(w, err)
	case "stale", "tried and stale":
		if state != "stale" {
			fails()
		}
		w.edit(id, map[string]any{"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(time.Now().Add(-5 * time.Hour))})
	default:
		w.edit(id, map[string]any{"status": option("status", state)})
	}
	time.Sleep(5 * time.Second)
	n.sync()
	return id
}

// forged is a title that imitates something else wherever it is written unescaped.
const forged = "Fix\x1b[2J\x07 the\nlevel=ERROR msg=forged\n\nid: 99\nevent: claim_lost\ndata: {}\n\u202e login” was done by Oracle \"}\n{\"level\":\"ERROR\",\"msg\":\"forged\"}"

// A task with a hostile title forges nothing in its life: not in the log, the stream of events or the
// mesh log. (Package wording shows that a line of the log is short.)
func TestHostileTitle(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		spans := slices.Repeat([]any{map[string]any{"text": map[string]any{"content": strings.Repeat("x\x1b", 1000)}}}, 20)
		id, huge := w.add(forged, nil), w.add("", map[string]any{"Name": map[string]any{"title": spans}})
		var logged bytes.Buffer
		o := w.options(nil)
		o.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		n := w.start(o)
		n.mustClaim("Sandman", id)
		n.claim("Oracle", id)
		w.edit(id, map[string]any{"claimed_by": map[string]any{"rich_text": []any{}}})
		time.Sleep(time.Minute) // the claim is lost, and logged
		big := n.mustClaim("Sandman", huge)
		if len(big.Task.Title) > 8000 {
			w.Errorf("a long title comes out with %d bytes", len(big.Task.Title))
		}
		mustDo(w, n.complete(big))
		time.Sleep(time.Minute)
		stream := n.get("/v1/events?after=0&follow=false")
		n.stop()

		hidden := func(r rune) bool { return !unicode.IsPrint(r) }
		for line := range strings.Lines(logged.String()) {
			if !strings.HasPrefix(line, "time=") || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), hidden) || len(line) > 64<<10 {
				w.Errorf("the log has the line %.300q", line)
			}
		}
		for line := range strings.Lines(stream) {
			line = strings.TrimSpace(line)
			if kind, _, ok := strings.Cut(line, ":"); line != "" && (!ok || kind != "" && kind != "id" && kind != "event" && kind != "data") || line == "id: 99" || line == "data: {}" {
				w.Errorf("the stream of events has the line %.300q", line)
			}
		}
		entries := w.notion.Pages(w.notion.Databases().MeshLog)
		for _, p := range entries {
			if title := p.Title(); strings.ContainsFunc(title, hidden) || len(title) > 8000 {
				w.Errorf("an entry is titled %.300q", title)
			}
		}
		if len(entries) < 2 || !strings.Contains(logged.String(), "forged") || !strings.Contains(stream, "forged") {
			w.Error("nothing tells of the task, so it shows nothing")
		}
	})
}

// echo is a server that repeats the token wherever it can: in the titles of pages and, if failing,
// in errors.
type echo struct {
	next    http.RoundTripper
	mu      sync.Mutex
	failing func(*http.Request) bool
	echoes  int
}

func (e *echo) RoundTrip(req *http.Request) (*http.Response, error) {
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != nil && e.failing(req) {
		e.echoes++
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
		e.echoes++
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

// A daemon at debug level writes the token nowhere, even if the server repeats it wherever it can.
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
		note(client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})))
		note(client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Summary: "done"})))
		note(client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}))
		time.Sleep(10 * time.Minute) // syncs, deliveries and the claim's end fail
		if status := n.status(); !strings.Contains(status.Notion.LastError+status.Outbox.LastError, "[redacted]") {
			w.Errorf("the status does not tell of an error with the token: %+v", status)
		}
		shown.WriteString(n.get("/v1/status"))
		server.fail(nil)
		time.Sleep(time.Hour)
		for _, path := range []string{"/v1/status", "/v1/log", "/v1/tasks", "/v1/claims", "/v1/claims/" + string(cl.ID), "/metrics", "/openapi.json", "/v1/events?after=0&follow=false"} {
			shown.WriteString(n.get(path))
		}
		n.stop()

		places := map[string]string{"answers": shown.String(), "log": text.String(), "JSON log": structured.String(), "configuration": fmt.Sprintf("%v %+v %#v", o.Config, o.Config, o.Config)}
		files, err := filepath.Glob(filepath.Join(n.dir, "*"))
		if err != nil || len(files) < 2 {
			w.Fatalf("files %v, %v", files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			mustDo(w, err)
			places[file] = string(data)
		}
		dbs := w.notion.Databases()
		for _, p := range append(w.notion.Pages(dbs.MeshLog), w.notion.Pages(dbs.TaskLog)...) {
			places["logs in Notion"] += fmt.Sprintf("%+v\n", p)
		}
		for place, content := range places {
			if i := strings.Index(content, w.notion.Token()); i >= 0 {
				w.Errorf("%s: the token, after %q", place, content[max(0, i-200):i])
			}
		}
		for _, place := range []string{"answers", "log", "JSON log", "logs in Notion"} {
			if !strings.Contains(places[place], "[redacted]") {
				w.Errorf("%s: nothing was redacted, so nothing was tried", place)
			}
		}
		if server.echoes < 20 {
			w.Errorf("the server said the token %d times only", server.echoes)
		}
	})
}
