package mcp_test

//lint:file-ignore SA1019 clients of before 2026-07-28 are told of lost claims by logging

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
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

// world is a board, a daemon that works on it, and bridges that ask it, in a bubble of virtual time.
type world struct {
	*testing.T
	notion  *emulator.Emulator
	options daemon.Options

	mu   sync.Mutex // guards all below
	pipe *server.Pipe
	stop func()
}

// inWorld runs a test on a board with tasks of those titles, the first of which is the most important, and with a daemon.
func inWorld(t *testing.T, titles []string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(10 * time.Second) // net/http may still dial for a request that has ended, see Client.Await
		inRealTime(t, titles, test)
	})
}

// inRealTime is inWorld without the bubble, for programs that are asked.
func inRealTime(t *testing.T, titles []string, test func(w *world)) {
	t.Helper()
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
	w.options = daemon.Options{Config: c, Version: "test", Transport: notion.Client().Transport, Log: slog.New(slog.DiscardHandler)}
	w.serve()
	defer w.halt()
	test(w)
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
	s.begin(&sdk.IOTransport{Reader: s.bridge.out, Writer: s.bridge.in})
	return s
}

// begin connects the client.
func (s *session) begin(t sdk.Transport) {
	s.w.Helper()
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
	s.ClientSession, err = c.Connect(s.w.Context(), t, nil)
	testkit.Must(s.w, err)
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

const (
	hello   = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	goodbye = `{"jsonrpc":"2.0","id":"goodbye","method":"ping"}`
)

// speak has a bridge without a daemon read all of in, and returns the lines that it wrote.
func speak(t *testing.T, in string) []string {
	t.Helper()
	var out bytes.Buffer
	testkit.OK(t, mcp.Serve(t.Context(), mcp.Options{
		Agent: "Sandman", Log: slog.New(slog.DiscardHandler),
		Daemon: func() (*client.Client, error) { return nil, errors.New("there is none") },
	}, strings.NewReader(in), &out))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// message is what is looked at of an answer.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      any             `json:"id"`
	Method  string          `json:"method"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int
		Message string
	}
}

func read(t *testing.T, line string) message {
	t.Helper()
	var m message
	err := json.Unmarshal([]byte(line), &m)
	testkit.Check(t, err == nil && m.Version == "2.0", "the line %q is no message: %v", line, err)
	return m
}

// TestLines sends what is no message, or no sensible one, between two that are.
func TestLines(t *testing.T) {
	for name, tt := range map[string]struct {
		in   string
		code int    // of the answer; 0 for none
		id   any    // of the answer
		says string // the answer
	}{
		"no JSON":           {`claim me a task`, -32700, nil, "the line is no JSON"},
		"half a message":    {`{"jsonrpc":"2.0","id":1,"method":"pi`, -32700, nil, "the line is no JSON"},
		"two on a line":     {goodbye + goodbye, -32700, nil, "the line is no JSON"},
		"binary":            {"\x00\xff\xfe\x1b[2J", -32700, nil, "the line is no JSON"},
		"empty lines":       {"\n\r\n  \t", 0, nil, ""},
		"an empty batch":    {`[]`, -32600, nil, "the batch is empty"},
		"a batch of one":    {`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, 0, 7.0, "{}"},
		"a batch of things": {`[1]`, -32600, nil, "not a JSON-RPC 2.0 message"},
		"another version":   {`{"jsonrpc":"1.0","id":7,"method":"ping"}`, -32600, 7.0, "not a JSON-RPC 2.0 message"},
		"no method":         {`{"jsonrpc":"2.0"}`, -32600, nil, "not a JSON-RPC 2.0 message"},
		"a strange id":      {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, nil, "not a JSON-RPC 2.0 message"},
		"a strange method":  {`{"jsonrpc":"2.0","id":"x","method":7}`, -32600, "x", "not a JSON-RPC 2.0 message"},
		"strange params":    {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}`, -32602, 7.0, `invalid params"`},
		"no such method":    {`{"jsonrpc":"2.0","id":7,"method":"steal"}`, -32601, 7.0, "steal"},
		"an answer":         {`{"jsonrpc":"2.0","id":7,"result":{}}`, 0, nil, ""},
		"too long a line":   {`"` + strings.Repeat("x", 5<<20) + `"`, -32600, nil, "was not read"},
		"no newline":        {`{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\r", 0, 7.0, "{}"},
		"a strange name":    {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"inbox","arguments":{"agent":"\u001b[2J"}}}`, 0, 7.0, `"code":"failed"`},
		"no arguments":      {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"inbox","arguments":null}}`, 0, 7.0, "there is none"},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			lines := speak(t, hello+"\n"+tt.in+"\n"+goodbye+"\n")
			slices.SortFunc(lines, func(a, b string) int { return strings.Compare(read(t, a).Method, read(t, b).Method) })
			var answers []message
			var raw []string
			for _, line := range lines {
				if m := read(t, line); m.ID != "hello" && m.ID != "goodbye" {
					answers, raw = append(answers, m), append(raw, line)
				}
			}
			if n := len(lines) - len(answers); n != 2 {
				t.Fatalf("%d of 2 requests around it were answered: %q", n, lines)
			}
			if tt.says == "" {
				testkit.Check(t, len(answers) == 0, "answered %q", raw)
				return
			}
			testkit.Require(t, len(answers) == 1 && answers[0].ID == tt.id && strings.Contains(raw[0], tt.says),
				"answered %.300q, want one with id %v that says %q", raw, tt.id, tt.says)
			if e := answers[0].Error; (e == nil) != (tt.code == 0) || e != nil && e.Code != tt.code {
				t.Errorf("answered %s, want code %d", raw[0], tt.code)
			}
		})
	}
}

// TestSameID asks twice under one id while the first waits.
func TestSameID(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		b := w.bridge(mcp.Options{Agent: "Sandman"})
		b.say(hello)
		b.next()
		wait := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"claim_task","arguments":{"wait_seconds":60}}}`
		b.say(wait)
		b.say(wait)
		m := read(w.T, b.next())
		testkit.Check(w, m.ID == nil && m.Error != nil && strings.Contains(m.Error.Message, "which is not answered yet"), "the second was answered %+v", m)
		m = read(w.T, b.next())
		testkit.Check(w, m.ID == 1.0 && strings.Contains(string(m.Result), "nothing_ready"), "the first was answered %+v", m)
		b.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		m = read(w.T, b.next())
		testkit.Check(w, m.ID == 1.0 && m.Error == nil, "after that, it was answered %+v", m)
		testkit.OK(w, b.end())
	})
}

// TestExactIDs names requests by numbers that no float64 is, and otherwise: each is answered, cancelled
// and told of its progress under its own name, and not under that of a neighbour.
func TestExactIDs(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		for _, id := range []string{"9007199254740993", "1.0", `"9007199254740993"`} {
			b := w.bridge(mcp.Options{Agent: "Sandman"})
			say := func(line string, want ...string) {
				b.say(strings.ReplaceAll(line, "ID", id))
				for _, want := range want {
					testkit.Says(w, "an answer", b.next(), strings.ReplaceAll(want, "ID", id))
				}
			}
			say(hello, "")
			say(`{"jsonrpc":"2.0","id":ID,"method":"ping"}`, `"id":ID,`)
			say(`{"jsonrpc":"2.0","id":ID,"method":"steal"}`, `"id":ID,`)
			say(`{"jsonrpc":"2.0","id":ID,"method":7}`, `"id":ID,`)
			say(`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"claim_task","arguments":{"wait_seconds":60},"_meta":{"progressToken":ID}}}`, `"progressToken":ID,`)
			say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`)
			say(goodbye)
			for !strings.Contains(b.next(), `"id":"goodbye"`) {
			}
			go io.Copy(io.Discard, b.got)
			w.add(id)
			time.Sleep(20 * time.Second)
			w.shows(id, "OPEN") // it was cancelled
			w.person(id, status("CANCELLED"))
			testkit.OK(w, b.end())
		}
	})
}

// TestHandshakes begins in both ways that there are.
func TestHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
			line := speak(t, strings.Replace(hello, "2025-11-25", version, 1)+"\n")[0]
			testkit.Check(t, strings.Contains(line, `"protocolVersion":"`+version+`"`), "initialize of %s: %s", version, line)
		}
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		lines := speak(t, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_tasks","arguments":{},`+meta+`}}`+"\n")
		slices.SortFunc(lines, func(a, b string) int { return int(read(t, a).ID.(float64) - read(t, b).ID.(float64)) })
		if len(lines) != 2 || !strings.Contains(lines[0], `"2026-07-28"`) || !strings.Contains(lines[0], `"tools"`) || !strings.Contains(lines[1], "there is none") {
			t.Errorf("server/discover and a call: %q", lines)
		}
	})
}

// FuzzLines sends anything: every line that comes back is a message, and nothing ends the bridge before the end of its input.
func FuzzLines(f *testing.F) {
	for _, line := range []string{
		goodbye, `{}`, `[{}]`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"claim_task","arguments":{"task":"x"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"dibs://tasks/%zz"}}`, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"work"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["dibs://claims"]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":7}}`, "\xff", `{"jsonrpc":"2.0","id":1e400,"method":"ping"}`,
	} {
		f.Add(line, true)
		f.Add(line, false)
	}
	f.Fuzz(func(t *testing.T, in string, greeted bool) {
		// What is sent has no answer of these names, and no waits that the test would sit through.
		if strings.Contains(in, "goodbye") || strings.Contains(in, "hello") {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			first := ""
			if greeted {
				first = hello + "\n"
			}
			lines := speak(t, first+in+"\n"+goodbye+"\n")
			if !slices.ContainsFunc(lines, func(line string) bool { return read(t, line).ID == "goodbye" }) {
				t.Errorf("after %q, nothing was answered: %q", in, lines)
			}
		})
	})
}

// pushed is what the bridge has sent by itself.
func (s *session) pushed() (logs string, uris []string, done []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.logs, "\n"), slices.Clone(s.uris), slices.Clone(s.done)
}
