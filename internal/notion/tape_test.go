package notion_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder"
)

// The cassettes are recorded anew with
//
//	go test ./internal/notion -run TestFixtures -record
//
// against the workspace that NOTION_TOKEN opens, whose databases have the ids
// below or those in DIBS_DATABASES_TASKS, …_TASK_LOG and …_MESH_LOG, else against
// the emulator. What Notion does not do on demand is always recorded against the
// emulator. Each cassette says in its first line what it was recorded against.
var record = flag.Bool("record", false, "record the fixtures anew")

const (
	fixtures = "../../fixtures"

	againstEmulator  = "# Recorded against the emulator.\n"
	againstWorkspace = "# Recorded against a Notion workspace.\n"
)

// The ids in cassettes do not depend on what they were recorded against.
const (
	tapedTasks   = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	tapedTaskLog = "2fa35e81-2bbb-8180-8f74-cbd9acd08b52"
	tapedMeshLog = "2fa35e81-2bbb-811a-b6f7-ff9eb7448c99"

	tapedDatabase = "00000000-0000-4000-9000-000000000001" // that was made by a request
)

// stage is where a cassette is recorded or replayed. In a replay it only knows
// what things were called when the cassette was recorded.
type stage struct {
	*testing.T
	name      string
	transport http.RoundTripper // nil in a replay
	token     string
	emulator  *emulator.Emulator // nil in a replay, and for a workspace

	ids   map[string]string // real to taped
	pages []string          // that were made

	tasks, taskLog, meshLog string
	client                  *notion.Client
}

// onStage replays a cassette, or records it. set prepares the workspace; what
// play does with the client is on the cassette.
func onStage(t *testing.T, name string, emulated bool, set func(s *stage), play func(s *stage)) {
	if *record {
		s := &stage{T: t, name: name, ids: make(map[string]string)}
		s.open(emulated)
		defer s.clear()
		set(s)
		s.run(recorder.ModeRecordOnly, play)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, name: name, tasks: tapedTasks, taskLog: tapedTaskLog, meshLog: tapedMeshLog, token: "ntn_replay"}
		set(s)
		s.run(recorder.ModeReplayOnly, play)
	})
}

func (s *stage) open(emulated bool) {
	s.Helper()
	if token := os.Getenv("NOTION_TOKEN"); token != "" && !emulated {
		s.token, s.transport = token, http.DefaultTransport
		s.tasks = cmp.Or(os.Getenv("DIBS_DATABASES_TASKS"), tapedTasks)
		s.taskLog = cmp.Or(os.Getenv("DIBS_DATABASES_TASK_LOG"), tapedTaskLog)
		s.meshLog = cmp.Or(os.Getenv("DIBS_DATABASES_MESH_LOG"), tapedMeshLog)
	} else {
		var err error
		if s.emulator, err = emulator.New(emulator.Options{}); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { s.emulator.Close() })
		s.token, s.transport = s.emulator.Token(), s.emulator.Client().Transport
		db := need(s.emulator.Seed("empty"))(s)
		s.tasks, s.taskLog, s.meshLog = db.Tasks, db.TaskLog, db.MeshLog
	}
	for real, taped := range map[string]string{s.tasks: tapedTasks, s.taskLog: tapedTaskLog, s.meshLog: tapedMeshLog} {
		s.ids[real], s.ids[s.source(real)] = taped, strings.Replace(taped, "2f", "d5", 1)
	}
}

// run plays with a client whose requests pass the recorder.
func (s *stage) run(mode recorder.Mode, play func(s *stage)) {
	s.Helper()
	against := againstWorkspace
	if s.emulator != nil {
		against = againstEmulator
	}
	vcr, err := recorder.New(filepath.Join(fixtures, s.name),
		recorder.WithMode(mode),
		recorder.WithRealTransport(s.transport),
		recorder.WithSkipRequestLatency(true),
		recorder.WithMatcher(matches),
		recorder.WithHook(s.redact, recorder.BeforeSaveHook),
		recorder.WithHook(func(i *cassette.Interaction) error {
			if mode == recorder.ModeReplayOnly && !i.WasReplayed() {
				s.Errorf("not requested: %s %s", i.Request.Method, i.Request.URL)
			}
			return nil
		}, recorder.OnRecorderStopHook),
		recorder.WithHook(s.made, recorder.AfterCaptureHook),
		recorder.WithFS(labelled{cassette.NewDiskFS(), against}),
	)
	if err != nil {
		s.Fatal(err)
	}
	defer func() {
		if err := vcr.Stop(); err != nil {
			s.Error(err)
		}
	}()
	s.client, err = notion.New(notion.Options{Token: s.token, Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := vcr.RoundTrip(req)
		if errors.Is(err, cassette.ErrInteractionNotFound) {
			s.Errorf("not on the cassette: %s %s", req.Method, req.URL)
		}
		return resp, err
	})})
	if err != nil {
		s.Fatal(err)
	}
	play(s)
}

// labelled writes files with a first line that says what they are.
type labelled struct {
	cassette.FS
	label string
}

func (l labelled) WriteFile(name string, data []byte) error {
	return l.FS.WriteFile(name, append([]byte(l.label), data...))
}

// made notes a page, or a database, that was made by a request on the cassette.
func (s *stage) made(i *cassette.Interaction) error {
	if i.Request.Method != http.MethodPost || i.Response.Code != http.StatusOK {
		return nil
	}
	var object struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal([]byte(i.Response.Body), &object)
	switch {
	case strings.HasSuffix(i.Request.URL, "/v1/pages"):
		s.note(object.ID)
	case strings.HasSuffix(i.Request.URL, "/v1/databases"):
		s.ids[object.ID] = tapedDatabase
	}
	return err
}

// note gives a page that was made the next of the taped ids.
func (s *stage) note(id string) {
	s.pages = append(s.pages, id)
	s.ids[id] = tapedPage(len(s.pages))
}

// tapedPage is the id, on the cassette, of the nth page that was made, from 1.
func tapedPage(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// matches compares what a request asks, not how it travels.
func matches(req *http.Request, taped cassette.Request) bool {
	address, err := url.Parse(taped.URL)
	if err != nil || req.Method != taped.Method || req.URL.EscapedPath() != address.EscapedPath() ||
		!reflect.DeepEqual(req.URL.Query(), address.Query()) {
		return false
	}
	var body []byte
	if req.Body != nil {
		if body, err = io.ReadAll(req.Body); err != nil {
			return false
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	if len(body) == 0 || taped.Body == "" {
		return string(body) == taped.Body
	}
	var got, want any
	return json.Unmarshal(body, &got) == nil && json.Unmarshal([]byte(taped.Body), &want) == nil && reflect.DeepEqual(got, want)
}

// redact takes out what is secret, and what would differ in every recording.
func (s *stage) redact(i *cassette.Interaction) error {
	pairs := []string{s.token, "ntn_redacted"}
	for real, taped := range s.ids {
		pairs = append(pairs, real, taped, strings.ReplaceAll(real, "-", ""), strings.ReplaceAll(taped, "-", ""))
	}
	taped := strings.NewReplacer(pairs...)
	i.Request.URL, i.Request.Body = taped.Replace(i.Request.URL), taped.Replace(i.Request.Body)
	i.Response.Body = taped.Replace(i.Response.Body)
	i.Request.Headers = keep(i.Request.Headers, "Content-Type", "Notion-Version")
	i.Response.Headers = keep(i.Response.Headers, "Cf-Ray", "Content-Type", "Date", "Retry-After", "X-Notion-Request-Id")
	i.Request.ContentLength, i.Response.ContentLength = int64(len(i.Request.Body)), int64(len(i.Response.Body))
	i.Response.Duration = 0
	i.Response.TransferEncoding = nil
	return nil
}

func keep(h http.Header, names ...string) http.Header {
	kept := make(http.Header)
	for _, name := range names {
		if v := h.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	return kept
}

// task makes a page in the tasks database.
func (s *stage) task(properties props) task.ID { return s.page(s.tasks, properties) }

func (s *stage) page(database string, properties props) task.ID {
	s.Helper()
	if s.transport == nil {
		s.pages = append(s.pages, tapedPage(len(s.pages)+1))
		return s.id(len(s.pages))
	}
	var page struct {
		ID string `json:"id"`
	}
	s.call(http.MethodPost, "/v1/pages", props{"parent": props{"data_source_id": s.source(database)}, "properties": properties}, &page)
	s.note(page.ID)
	return s.id(len(s.pages))
}

// source returns a database's data source.
func (s *stage) source(database string) string {
	s.Helper()
	var shown struct {
		Sources []struct {
			ID string `json:"id"`
		} `json:"data_sources"`
	}
	s.call(http.MethodGet, "/v1/databases/"+database, nil, &shown)
	return shown.Sources[0].ID
}

// id returns the nth page that was made, from 1.
func (s *stage) id(n int) task.ID { return task.ID(s.pages[n-1]) }

// only returns the one page that was made.
func (s *stage) only() task.ID { return s.id(1) }

// trash moves a page to the trash.
func (s *stage) trash(id task.ID) {
	s.Helper()
	if s.transport != nil {
		s.call(http.MethodPatch, "/v1/pages/"+string(id), props{"in_trash": true}, nil)
	}
}

// fault makes something go wrong while a cassette is recorded.
func (s *stage) fault(f emulator.Fault) {
	if s.emulator != nil {
		s.emulator.Inject(f)
	}
}

// clear leaves nothing behind in a workspace.
func (s *stage) clear() {
	if s.emulator != nil {
		return
	}
	for _, id := range slices.Backward(s.pages) {
		s.call(http.MethodPatch, "/v1/pages/"+id, props{"in_trash": true}, nil)
	}
}

// call makes a request that is not on the cassette.
func (s *stage) call(method, path string, body any, answer any) {
	s.Helper()
	var sent io.Reader
	if body != nil {
		data := need(json.Marshal(body))(s)
		sent = bytes.NewReader(data)
	}
	req := need(http.NewRequest(method, "https://api.notion.com"+path, sent))(s)
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Notion-Version", transport.Version)
	req.Header.Set("Content-Type", "application/json")
	if s.emulator == nil {
		time.Sleep(400 * time.Millisecond) // only while recording against a workspace: its rate limit
	}
	resp := need(s.transport.RoundTrip(req))(s)
	defer resp.Body.Close()
	said := need(io.ReadAll(resp.Body))(s)
	if resp.StatusCode != http.StatusOK {
		s.Fatalf("%s %s: %s", method, path, said)
	}
	if answer != nil {
		must(s, json.Unmarshal(said, answer))
	}
}
