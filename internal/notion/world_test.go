package notion_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestMain lets garbage lie for longer than usual: the tests make much, and little of it lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// world is a client and an emulated workspace, in a bubble where time is virtual.
type world struct {
	*testing.T
	emulator  *emulator.Emulator
	transport http.RoundTripper
	databases emulator.Databases
	client    *notion.Client
}

// halfway is the jitter of the clients in a world: the same in every run.
func halfway(n time.Duration) time.Duration { return n / 2 }

// must fails the test over an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// need returns a value, or fails the test over the error beside it.
func need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// same compares two values; what says of what they are.
func same(t testing.TB, want, got any, what string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// failed checks how something failed, and what it says of it.
func failed(t testing.TB, err error, kind claim.StoreErrorKind, landed claim.Landed, says ...string) {
	t.Helper()
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	if !isFailed || failed.Kind != kind || failed.Landed != landed {
		t.Errorf("err = %v, %+v, want kind %d, landed %s", err, failed, kind, landed)
		return
	}
	contains(t, err.Error(), says...)
}

// contains checks that a text says all of that.
func contains(t testing.TB, text string, says ...string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("%q does not say %q", text, s)
		}
	}
}

// inWorld runs a test in a workspace with the three databases and no tasks.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		em := need(emulator.New(emulator.Options{}))(t)
		defer em.Close()
		transport := em.Client().Transport
		defer transport.(*http.Transport).CloseIdleConnections()
		databases := need(em.Seed("empty"))(t)
		client := need(notion.New(notion.Options{Token: em.Token(), Transport: transport, Jitter: halfway}))(t)
		test(&world{t, em, transport, databases, client})
	})
}

// via makes a new client, whose requests pass f on their way.
func (w *world) via(f func(req *http.Request, next http.RoundTripper) (*http.Response, error)) {
	w.Helper()
	next := w.transport
	w.transport = roundTrip(func(req *http.Request) (*http.Response, error) { return f(req, next) })
	w.client = w.another(notion.Options{})
}

// through makes a new client, whose requests pass f before they are sent.
func (w *world) through(f func(*http.Request)) {
	w.Helper()
	w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		f(req)
		return next.RoundTrip(req)
	})
}

// answering makes a new client, which gets the answers to requests whose path ends
// like that after f has changed them.
func (w *world) answering(path string, f func(body map[string]any)) {
	w.Helper()
	w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil || !strings.HasSuffix(req.URL.Path, path) {
			return resp, err
		}
		defer resp.Body.Close()
		var body map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			return nil, err
		}
		f(body)
		data, err := json.Marshal(body)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		return resp, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// tasks opens the tasks database.
func (w *world) tasks(schema notion.TaskSchema) *notion.Tasks {
	w.Helper()
	return need(w.client.Tasks(w.Context(), w.databases.Tasks, schema))(w)
}

// rows returns the tasks of a query.
func (w *world) rows(tasks *notion.Tasks, q notion.Query) []task.Task {
	w.Helper()
	rows, _, err := tasks.Query(w.Context(), q)
	must(w, err)
	return rows
}

// write writes to a task, and returns it as it was answered.
func (w *world) write(tasks *notion.Tasks, id task.ID, write claim.Write) task.Task {
	w.Helper()
	return need(tasks.Write(w.Context(), id, write))(w).Task
}

// edit changes the properties of the tasks database, as a person would.
func (w *world) edit(schema props) {
	w.Helper()
	must(w, w.emulator.EditSchema(w.databases.Tasks, schema))
}

// another returns another client of the workspace.
func (w *world) another(o notion.Options) *notion.Client {
	w.Helper()
	o.Transport = w.transport
	if o.Token == "" {
		o.Token = w.emulator.Token()
	}
	if o.Jitter == nil {
		o.Jitter = halfway
	}
	return need(notion.New(o))(w)
}

// sent returns how many requests there were, and forgets them.
func (w *world) sent() int {
	defer w.emulator.ResetRequests()
	return len(w.emulator.Requests())
}

// took checks how many requests there were, and forgets them.
func (w *world) took(want int, what string) {
	w.Helper()
	if n := w.sent(); n != want {
		w.Errorf("%s took %d requests, want %d", what, n, want)
	}
}

// page makes a page in the tasks database, as a person would.
func (w *world) page(properties map[string]any) task.ID {
	w.Helper()
	return w.pageIn(w.databases.Tasks, properties)
}

func (w *world) pageIn(database string, properties map[string]any) task.ID {
	w.Helper()
	return task.ID(need(w.emulator.CreatePage(database, properties))(w))
}

// database makes another database.
func (w *world) database(schema map[string]any) string {
	w.Helper()
	return need(w.emulator.CreateDatabase("Chores", schema))(w)
}

// look returns a page as it is now.
func (w *world) look(id task.ID) emulator.Page {
	w.Helper()
	page, ok := w.emulator.Page(string(id))
	if !ok {
		w.Fatalf("there is no page %s", id)
	}
	return page
}

func (w *world) get(tasks *notion.Tasks, id task.ID) task.Task {
	w.Helper()
	return need(tasks.Get(w.Context(), id))(w).Task
}

// The values of properties, as the API takes them.

type props = map[string]any

func title(s string) any    { return props{"title": spans(s)} }
func richText(s string) any { return props{"rich_text": spans(s)} }
func number(n float64) any  { return props{"number": n} }
func status(s string) any   { return props{"status": props{"name": s}} }
func choice(s string) any   { return props{"select": props{"name": s}} }
func day(s string) any      { return props{"date": props{"start": s}} }

func spans(s string) []any { return []any{props{"text": props{"content": s}}} }

func relates(ids ...task.ID) any {
	refs := []any{}
	for _, id := range ids {
		refs = append(refs, props{"id": string(id)})
	}
	return props{"relation": refs}
}

// of is the schema of a property without settings, or with options.
func of(kind string, options ...string) any {
	if len(options) == 0 {
		return props{kind: props{}}
	}
	list := []any{}
	for _, name := range options {
		list = append(list, props{"name": name})
	}
	return props{kind: props{"options": list}}
}

// The time in a bubble when it begins.
var dawn = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// claimed is the write of a claim.
func claimed(agent string, at time.Time) claim.Write {
	return claim.Write{
		Status: new(task.InProgress), ClaimedBy: &agent, ClaimedAt: &at,
		Token: new("01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"), Timeout: new(45 * time.Minute),
	}
}
