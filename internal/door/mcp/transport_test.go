package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/door/mcp"
	"dibs/internal/testkit"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

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

// FuzzLines sends anything: every line that comes back is a message, and nothing ends the
// bridge before the end of its input.
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

// scenarios are those of the conformance suite that fit any server and see what is ours: others want
// tools, prompts and resources of their own names, or look at the SDK.
var scenarios = []string{"server-initialize", "tools-list", "resources-list", "prompts-list", "resources-subscribe"}

// TestConformance has the protocol's own suite look at the server. The suite speaks HTTP
// only, so that the server is put behind the SDK's. .ci/mcp installs the suite, in the
// folder that TEST_CLIENTS names.
func TestConformance(t *testing.T) {
	testkit.Long(t)
	dir := os.Getenv("TEST_CLIENTS")
	switch {
	case dir == "" && os.Getenv("CI") == "true":
		t.Fatal("TEST_CLIENTS is not set: export TEST_CLIENTS=$(.ci/mcp)")
	case dir == "":
		t.Skip("the suite is not there: export TEST_CLIENTS=$(.ci/mcp)")
	}
	b := mcp.New(t.Context(), mcp.Options{
		Agent: "Sandman", Version: "test", Log: slog.New(slog.DiscardHandler),
		Daemon: func() (*client.Client, error) { return nil, errors.New("there is none") },
	})
	defer b.Close()
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.Server() }, nil))
	defer web.Close()
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.Command(filepath.Join(dir, "node_modules", "node", "bin", "node"), filepath.Join(dir, "node_modules", ".bin", "conformance"),
				"server", "--url", web.URL, "--scenario", scenario)
			cmd.Dir = t.TempDir() // where it leaves its results
			out, err := cmd.CombinedOutput()
			testkit.Check(t, err == nil, "%v:\n%s", err, out)
			t.Logf("%s", out)
		})
	}
}
