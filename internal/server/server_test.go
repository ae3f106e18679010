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

	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/server"
	"dibs/internal/server/servertest"
	"dibs/internal/task"
)

const (
	taskID  = task.ID("11111111-2222-3333-4444-555555555555")
	claimID = claim.ID("01KA8XQ5V8ZJ6N3T4R7W9Y2M1D")
)

// noon is a moment by Notion's clock, which in these tests is 90 seconds ahead.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const skew = 90 * time.Second

// held is a claim as a broker tells it.
func held() claim.Claim {
	return claim.Claim{
		ID: claimID, Agent: "Sandman", State: claim.Held,
		Task: task.Task{
			ID: taskID, Title: "Write the <README>", URL: "https://notion.example/1",
			Status: task.InProgress, Priority: task.High, Token: string(claimID),
		},
		Reserved: noon.Add(-2 * time.Second), Started: noon.Add(3 * time.Second),
		Lease: claim.Lease{ClaimedAt: noon.Add(123456789), Timeout: 30 * time.Minute, StaleAt: noon.Add(32 * time.Minute)},
	}
}

// fixture is a server and what it is made of.
type fixture struct {
	t      *testing.T
	broker *servertest.Broker
	keys   *servertest.Keys
	pipe   *servertest.Pipe
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
	f := &fixture{t: t, broker: servertest.NewBroker(t), keys: servertest.NewKeys(t), pipe: servertest.NewPipe(), log: new(logBuffer)}
	f.broker.Skew = skew
	f.server = server.New(server.Options{
		Broker: f.broker, Keys: f.keys, Version: "v1.2.3",
		Log:     slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") }),
		Listed:  func() []int { return listed },
		Answered: func(route string, status int) {
			f.log.mu.Lock()
			defer f.log.mu.Unlock()
			f.routes = append(f.routes, fmt.Sprint(route, " ", status))
		},
	})
	f.serve(f.pipe)
	return f
}

func (f *fixture) serve(l net.Listener) {
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	f.t.Cleanup(func() {
		if err := f.server.Shutdown(context.Background()); err != nil {
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

func allowed(agent string) servertest.Call {
	return servertest.Call{Method: "Authorize", Args: []any{agent, broker.Caller{UID: -1}}}
}

func found(ref broker.Ref) servertest.Call {
	return servertest.Call{Method: "Lookup", Args: []any{ref}, Result: held()}
}
