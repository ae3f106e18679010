package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/task"
)

const (
	taskID  = task.ID("11111111-2222-3333-4444-555555555555")
	claimID = claim.ID("01KA8XQ5V8ZJ6N3T4R7W9Y2M1D")
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// held is a claim, and heldJSON the same on the socket.
func held() api.Claim {
	return api.Claim{
		ID: claimID, Agent: "Sandman", State: claim.Held,
		Task:      api.TaskRef{ID: taskID, Title: "Write the <README>", URL: "https://notion.example/1", Status: task.InProgress, Priority: "high"},
		ClaimedAt: api.Time{Time: noon.Add(123456789)}, ExpiresAt: api.Time{Time: noon.Add(30*time.Minute + 123456789)},
	}
}

const heldJSON = `{"id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D",` +
	`"task":{"id":"11111111-2222-3333-4444-555555555555","title":"Write the <README>","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"},` +
	`"agent":"Sandman","state":"held","claimed_at":"2026-11-20T12:00:00.123Z","expires_at":"2026-11-20T12:30:00.123Z"}`

// fixture is a server and what it is made of.
type fixture struct {
	t      *testing.T
	broker *fake
	keys   *memory
	pipe   *server.Pipe
	server *server.Server
	log    *logBuffer
	routes []string // of the answers, with their status
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// start serves on connections without sockets until the test ends. listed are the
// users that the configuration names.
func start(t *testing.T, listed ...int) *fixture {
	t.Helper()
	f := &fixture{t: t, broker: newFake(t), keys: newMemory(t), pipe: server.NewPipe(), log: new(logBuffer)}
	f.server = server.New(server.Options{
		Broker: f.broker, Journal: f.keys, Version: "v1.2.3",
		Log:     f.logger(),
		Metrics: f,
	})
	f.server.SetListed(listed)
	f.serve(f.pipe)
	return f
}

// Handler and Answered are server.Metrics.
func (f *fixture) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
}

func (f *fixture) Answered(route string, status int) {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.routes = append(f.routes, fmt.Sprint(route, " ", status))
}

func (f *fixture) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (f *fixture) serve(l net.Listener) { f.serveAt(f.server, l) }

// serveAt has a server, or a front, serve until the test ends.
func (f *fixture) serveAt(s interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}, l net.Listener) {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	f.t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			f.t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			f.t.Errorf("Serve: %v", err)
		}
	})
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with a JSON body, or with none if body is empty. header
// holds names and values in turn; "-" as a value takes the field away.
func (f *fixture) ask(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	return exchange(ctx, f.pipe.Dial, method, path, body, header...)
}

// dialer connects, as the thread's user, for a request that is made from
// another thread.
func dialer(path string) func(context.Context) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	return func(context.Context) (net.Conn, error) { return conn, err }
}

func exchange(ctx context.Context, dial func(context.Context) (net.Conn, error), method, path, body string, header ...string) (answer, error) {
	client := http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://dibs"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i+1] == "-" {
			req.Header.Del(header[i])
		}
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data)}, err
}

// must asks and fails the test if there is no answer.
func (f *fixture) must(method, path, body string, header ...string) answer {
	f.t.Helper()
	a, err := f.ask(f.t.Context(), method, path, body, header...)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// logged returns what the server has logged, once it has nothing left to do.
func (f *fixture) logged() string {
	synctest.Wait()
	return f.log.String()
}

// inBubble runs the test with virtual time.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
