package notion_test

import (
	"bytes"
	"encoding/json"
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

// inWorld runs a test in a workspace with the three databases and no tasks.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		em, err := emulator.New(emulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer em.Close()
		transport := em.Client().Transport
		defer transport.(*http.Transport).CloseIdleConnections()
		databases, err := em.Seed("empty")
		if err != nil {
			t.Fatal(err)
		}
		client, err := notion.New(notion.Options{Token: em.Token(), Transport: transport, Jitter: halfway})
		if err != nil {
			t.Fatal(err)
		}
		test(&world{t, em, transport, databases, client})
	})
}

// through makes a new client, whose requests pass f before they are sent.
func (w *world) through(f func(*http.Request)) {
	w.Helper()
	next := w.transport
	client, err := notion.New(notion.Options{
		Token: w.emulator.Token(), Jitter: halfway,
		Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			f(req)
			return next.RoundTrip(req)
		}),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.client = client
}

// answering makes a new client, which gets the answers to requests whose path ends
// like that after f has changed them.
func (w *world) answering(path string, f func(body map[string]any)) {
	next := w.transport
	w.transport = roundTrip(func(req *http.Request) (*http.Response, error) {
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
	w.through(func(*http.Request) {})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// tasks opens the tasks database.
func (w *world) tasks(schema notion.TaskSchema) *notion.Tasks {
	w.Helper()
	tasks, err := w.client.Tasks(w.Context(), w.databases.Tasks, schema)
	if err != nil {
		w.Fatal(err)
	}
	return tasks
}

// page makes a page in the tasks database, as a person would.
func (w *world) page(properties map[string]any) task.ID {
	w.Helper()
	return w.pageIn(w.databases.Tasks, properties)
}

func (w *world) pageIn(database string, properties map[string]any) task.ID {
	w.Helper()
	id, err := w.emulator.CreatePage(database, properties)
	if err != nil {
		w.Fatal(err)
	}
	return task.ID(id)
}

// database makes another database.
func (w *world) database(schema map[string]any) string {
	w.Helper()
	id, err := w.emulator.CreateDatabase("Chores", schema)
	if err != nil {
		w.Fatal(err)
	}
	return id
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
	r, err := tasks.Get(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return r.Task
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
