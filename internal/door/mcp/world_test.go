package mcp_test

//lint:file-ignore SA1019 clients of before 2026-07-28 are told of lost claims by logging

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/door/mcp"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunInMemory(m)) }

// world is a board, a daemon that works on it, and bridges that ask it, in a bubble of
// virtual time.
type world struct {
	*testing.T
	notion  *emulator.Emulator
	options daemon.Options

	mu   sync.Mutex // guards all below
	pipe *server.Pipe
	stop func()
}

// inWorld runs a test on a board with tasks of those titles, the first of which is the
// most important, and with a daemon.
func inWorld(t *testing.T, titles []string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		notion := testkit.Got(emulator.New(emulator.Options{}))(t)
		defer notion.Close()
		dbs := testkit.Got(notion.Seed("empty"))(t)
		w := &world{T: t, notion: notion}
		for _, title := range titles {
			w.add(title)
			time.Sleep(time.Second)
		}
		c := config.Default()
		c.Notion.Token = config.Secret(notion.Token())
		c.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
		c.StateDir = filepath.Join(t.TempDir(), "state")
		w.options = daemon.Options{
			Config: c, Version: "test", Transport: notion.Client().Transport, Log: slog.New(slog.DiscardHandler),
		}
		w.serve()
		defer func() {
			w.halt()
			time.Sleep(10 * time.Second) // net/http may still dial for a request that has ended, see Client.Await
		}()
		test(w)
	})
}

// add puts a task on the board.
func (w *world) add(title string) string {
	w.Helper()
	id := testkit.Got(w.notion.CreatePage(w.notion.Databases().Tasks, map[string]any{
		"Name": map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": title}}}},
	}))(w)
	return id
}

// task is the id of the task with that title.
func (w *world) task(title string) string {
	w.Helper()
	for _, p := range w.notion.Pages(w.notion.Databases().Tasks) {
		if p.Title() == title {
			return p.ID
		}
	}
	w.Fatalf("no task %q", title)
	return ""
}

// status is what the page of a task shows.
func (w *world) status(title string) string {
	w.Helper()
	p, _ := w.notion.Page(w.task(title))
	return strings.TrimSpace(p.Select("status") + " " + p.Text("claimed_by"))
}

// person edits a task in Notion, and gives the daemon time to see it.
func (w *world) person(title string, props map[string]any) {
	w.Helper()
	testkit.Must(w, w.notion.EditPage(w.task(title), props))
	time.Sleep(40 * time.Second)
}

func status(name string) map[string]any {
	return map[string]any{"status": map[string]any{"status": map[string]any{"name": name}}}
}

// serve starts the daemon.
func (w *world) serve() {
	w.Helper()
	pipe := server.NewPipe()
	o := w.options
	o.Listener = pipe
	d := testkit.Got(daemon.Start(w.Context(), o))(w)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pipe = pipe
	w.stop = sync.OnceFunc(func() {
		cancel()
		testkit.OK(w, <-done)
	})
}

// halt stops the daemon.
func (w *world) halt() {
	w.mu.Lock()
	stop := w.stop
	w.mu.Unlock()
	stop()
}

// ask is a client of the daemon that there is at the time.
func (w *world) ask() *client.Client {
	return client.Over("/run/dibs.sock", func(ctx context.Context) (net.Conn, error) {
		w.mu.Lock()
		pipe := w.pipe
		w.mu.Unlock()
		return pipe.Dial(ctx)
	})
}

// bridge is one bridge, with the lines to and from it.
type bridge struct {
	in  *io.PipeWriter
	out *io.PipeReader
	got *bufio.Reader // from out
	w   *world
	// end closes the input, and waits for the end.
	end func() error
}

func (w *world) bridge(o mcp.Options) *bridge {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	if o.Daemon == nil {
		o.Daemon = func() (*client.Client, error) { return w.ask(), nil }
	}
	o.Version, o.Grace, o.Log = "test", time.Minute, slog.New(slog.NewTextHandler(w.Output(), nil))
	served := make(chan error, 1)
	go func() {
		err := mcp.Serve(w.Context(), o, inR, outW)
		inR.Close()
		outW.Close()
		served <- err
	}()
	b := &bridge{in: inW, out: outR, got: bufio.NewReader(outR), w: w}
	b.end = sync.OnceValue(func() error {
		inW.Close()
		return <-served
	})
	return b
}

// session is an agent's client, the SDK's own, at a bridge.
type session struct {
	*sdk.ClientSession
	w      *world
	bridge *bridge

	mu   sync.Mutex // guards all below
	logs []string
	uris []string
	done []float64 // progress
}

// connect starts a bridge, and a client at it.
func (w *world) connect(o mcp.Options) *session {
	w.Helper()
	s := &session{w: w, bridge: w.bridge(o)}
	note := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "claude-code", Version: "1"}, &sdk.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			note(func() { s.logs = append(s.logs, string(r.Params.Level)+": "+toText(r.Params.Data)) })
		},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			note(func() { s.uris = append(s.uris, r.Params.URI) })
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			note(func() { s.done = append(s.done, r.Params.Progress) })
		},
	})
	var err error
	s.ClientSession, err = c.Connect(w.Context(), &sdk.IOTransport{Reader: s.bridge.out, Writer: s.bridge.in}, nil)
	testkit.Must(w, err)
	return s
}

func toText(data any) string {
	if s, ok := data.(string); ok {
		return s
	}
	raw, _ := json.Marshal(data)
	return string(raw)
}

// close ends the client and its bridge.
func (s *session) close() {
	s.w.Helper()
	s.Close()
	err := s.bridge.end()
	testkit.Check(s.w, err == nil, "the bridge: %v", err)
}

// answer is that of a tool.
type answer struct {
	w      *world
	text   string
	fields map[string]any
	failed bool
}

// call calls a tool. args are JSON.
func (s *session) call(tool, args string) answer {
	s.w.Helper()
	a, err := s.try(s.w.Context(), tool, args)
	testkit.Require(s.w, err == nil, "%s %s: %v", tool, args, err)
	return a
}

func (s *session) try(ctx context.Context, tool, args string) (answer, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
	params.SetProgressToken("p")
	result, err := s.CallTool(ctx, params)
	if err != nil {
		return answer{}, err
	}
	a := answer{w: s.w, failed: result.IsError}
	for _, c := range result.Content {
		a.text += c.(*sdk.TextContent).Text
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(raw, &a.fields)
}

// must calls a tool that must do what it is asked to.
func (s *session) must(tool, args string) answer {
	s.w.Helper()
	a := s.call(tool, args)
	testkit.Require(s.w, !a.failed, "%s %s: %s", tool, args, a.text)
	return a
}

// refused calls a tool that must fail with that code.
func (s *session) refused(code, tool, args string) answer {
	s.w.Helper()
	a := s.call(tool, args)
	testkit.Check(s.w, a.failed && a.fields["code"] == code && strings.Contains(a.text, code+": "),
		"%s %s: failed = %v, %s, %v, want code %s", tool, args, a.failed, a.text, a.fields, code)
	return a
}

// begins, says and not look at the text of an answer.
func (a answer) begins(with string) answer {
	a.w.Helper()
	testkit.Check(a.w, strings.HasPrefix(a.text, with), "answered %s, want it to begin with %s", a.text, with)
	return a
}

func (a answer) says(parts ...string) answer {
	a.w.Helper()
	testkit.Says(a.w, "the answer", a.text, parts...)
	return a
}

func (a answer) not(parts ...string) answer {
	a.w.Helper()
	for _, part := range parts {
		testkit.Check(a.w, !strings.Contains(a.text, part), "answered %s, and want no %s", a.text, part)
	}
	return a
}

// shows looks at what the page of a task shows.
func (w *world) shows(title, want string) {
	w.Helper()
	got := w.status(title)
	testkit.Check(w, got == want, "%s shows %q, want %q", title, got, want)
}

// asSandman runs a test with one session, of the agent Sandman.
func asSandman(t *testing.T, titles []string, test func(*world, *session)) {
	t.Helper()
	inWorld(t, titles, func(w *world) {
		s := w.connect(mcp.Options{Agent: "Sandman"})
		defer s.close()
		test(w, s)
	})
}

// say writes a line, and next reads one.
func (b *bridge) say(line string) {
	b.w.Helper()
	testkit.Got(io.WriteString(b.in, line+"\n"))(b.w)
}

func (b *bridge) next() string {
	b.w.Helper()
	return testkit.Got(b.got.ReadString('\n'))(b.w)
}
