package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/server"
	"dibs/internal/server/servertest"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

const (
	taskID  = task.ID("11111111-2222-3333-4444-555555555555")
	claimID = claim.ID("01KA8XQ5V8ZJ6N3T4R7W9Y2M1D")
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var (
	brokers = claim.Claim{
		ID: claimID, Agent: "Sandman", State: claim.Held, Lease: claim.Lease{ClaimedAt: noon, Timeout: time.Hour},
		Task: task.Task{ID: taskID, Title: "Write", Status: task.InProgress, Priority: task.Low},
	}
	clients = api.Claim{ClaimID: claimID,
		ID: claimID, Agent: "Sandman", State: claim.Held, ClaimedAt: api.Time{Time: noon}, ExpiresAt: api.Time{Time: noon.Add(time.Hour)},
		Task: api.TaskRef{ID: taskID, Title: "Write", Status: task.InProgress, Priority: "low"},
	}
)

// TestMethods calls every method, with a real server before a strict broker.
func TestMethods(t *testing.T) {
	mine := broker.Ref{Claim: string(claimID), Agent: "Sandman"}
	authorized := servertest.Call{Method: "Authorize", Args: []any{"Sandman", broker.Caller{UID: -1}}}
	lookup := servertest.Call{Method: "Lookup", Args: []any{broker.Ref{Claim: string(taskID), Agent: "Sandman"}}, Result: brokers}
	finish := func(f claim.Finish) []servertest.Call {
		return []servertest.Call{authorized, lookup, {Method: "Finish", Args: []any{mine, f}, Result: brokers}}
	}
	for _, tt := range []struct {
		name  string
		calls []servertest.Call
		ask   func(context.Context, *client.Client) (any, error)
		want  any
	}{
		{
			name: "Claim",
			calls: []servertest.Call{authorized, {Method: "Claim", Result: brokers, Args: []any{
				broker.Request{Agent: "Sandman", Task: taskID, Timeout: 5 * time.Minute, Wait: 90 * time.Second, Key: "k", UID: -1},
			}}},
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Claim(ctx, api.ClaimRequest{Agent: "Sandman", Task: string(taskID), TimeoutMinutes: 5, WaitSeconds: 90}, "k")
			},
			want: clients,
		},
		{
			name:  "Renew",
			calls: []servertest.Call{authorized, lookup, {Method: "Renew", Args: []any{mine}, Result: brokers}},
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Renew(ctx, string(taskID), api.RenewRequest{Agent: "Sandman"}, "k")
			},
			want: clients,
		},
		{
			name:  "Complete",
			calls: finish(claim.Finish{As: claim.EndCompleted, Summary: "s"}),
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Complete(ctx, string(taskID), api.CompleteRequest{Agent: "Sandman", Summary: "s"}, "k")
			},
			want: clients,
		},
		{
			name:  "Release",
			calls: finish(claim.Finish{As: claim.EndReleased, Summary: "r"}),
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Release(ctx, string(taskID), api.StopRequest{Agent: "Sandman", Reason: "r"}, "k")
			},
			want: clients,
		},
		{
			name:  "Block",
			calls: finish(claim.Finish{As: claim.EndBlocked, Summary: "r"}),
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Block(ctx, string(taskID), api.BlockRequest{Agent: "Sandman", Reason: "r"}, "k")
			},
			want: clients,
		},
		{
			name:  "Fail",
			calls: finish(claim.Finish{As: claim.EndFailed, Summary: "r", Reopen: true}),
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Fail(ctx, string(taskID), api.FailRequest{Agent: "Sandman", Reason: "r", Reopen: true}, "k")
			},
			want: clients,
		},
		{
			name:  "Sweep",
			calls: []servertest.Call{{Method: "Sweep", Result: []api.Swept{{Task: taskID, Title: "Write", Former: "Oracle"}}}},
			ask:   func(ctx context.Context, c *client.Client) (any, error) { return c.Sweep(ctx, "k") },
			want:  api.Sweep{Swept: []api.Swept{{Task: taskID, Title: "Write", Former: "Oracle"}}},
		},
		{
			name:  "Claims",
			calls: []servertest.Call{{Method: "Claims", Args: []any{"a & b"}, Result: []claim.Claim{brokers}}},
			ask:   func(ctx context.Context, c *client.Client) (any, error) { return c.Claims(ctx, "a & b") },
			want:  api.Claims{Claims: []api.Claim{clients}},
		},
		{
			name:  "Lookup",
			calls: []servertest.Call{{Method: "Lookup", Args: []any{broker.Ref{Agent: "Sandman"}}, Result: brokers}},
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Lookup(ctx, api.OnlyClaim, "Sandman")
			},
			want: clients,
		},
		{
			name: "Tasks",
			calls: []servertest.Call{{
				Method: "Tasks", Args: []any{api.TaskFilter{Status: task.Open, Ready: true, Agent: "Oracle", Limit: 3}},
				Result: broker.Listing{Tasks: []broker.View{{Task: brokers.Task, Ready: true, WaitsFor: []task.ID{"b"}}}, Age: api.NewAge(noon, 0, false)},
			}},
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Tasks(ctx, api.TaskFilter{Status: task.Open, Ready: true, Agent: "Oracle", Limit: 3})
			},
			want: api.Tasks{Tasks: []api.Task{{TaskRef: clients.Task, Ready: true, WaitsFor: []task.ID{"b"}}}, Age: api.Age{SyncedAt: api.Time{Time: noon}}},
		},
		{
			name:  "Task",
			calls: []servertest.Call{{Method: "Task", Args: []any{taskID}, Result: broker.View{Task: brokers.Task}}},
			ask:   func(ctx context.Context, c *client.Client) (any, error) { return c.Task(ctx, taskID) },
			want:  api.Task{TaskRef: clients.Task},
		},
		{
			name:  "Status",
			calls: []servertest.Call{{Method: "Status", Result: api.Status{Version: "v1", StartedAt: api.Time{Time: noon}}}},
			ask:   func(ctx context.Context, c *client.Client) (any, error) { return c.Status(ctx) },
			want:  api.Status{Version: "v1", StartedAt: api.Time{Time: noon}, Warnings: []string{}},
		},
		{
			name: "Log",
			calls: []servertest.Call{{
				Method: "Log", Args: []any{api.LogFilter{Agent: "Oracle", Task: taskID, Claim: claimID, After: "E0", Limit: 3}},
				Result: []claim.Event{{ID: "E1", At: noon, Kind: claim.KindGranted}},
			}},
			ask: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Log(ctx, api.LogFilter{Agent: "Oracle", Task: taskID, Claim: claimID, After: "E0", Limit: 3})
			},
			want: api.Log{Entries: []api.LogEntry{{ID: "E1", At: api.Time{Time: noon}, Kind: claim.KindGranted}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := daemon(t)
				b.Expect(tt.calls...)
				got, err := tt.ask(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.name, diff)
				}
				if len(tt.calls) > 1 || tt.name == "Sweep" { // requests that change something carry the key
					if again, err := tt.ask(t.Context(), c); err != nil || !cmp.Equal(got, again) {
						t.Errorf("under the same key, the answer is %v, %v", again, err)
					}
				}
			})
		})
	}
}

// daemon serves a strict broker, and returns a client of it.
func daemon(t *testing.T) (*servertest.Broker, *client.Client) {
	t.Helper()
	b, pipe := servertest.NewBroker(t), servertest.NewPipe()
	s := server.New(server.Options{Broker: b, Keys: servertest.NewKeys(t), Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve(pipe) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.Background()), <-served); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return b, client.Over("/run/dibs.sock", pipe.Dial)
}

func TestProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := daemon(t)
		b.Expect(
			servertest.Call{Method: "Authorize", Args: []any{"Sandman", broker.Caller{UID: -1}}},
			servertest.Call{Method: "Claim", Args: []any{broker.Request{Agent: "Sandman"}}, Err: &claim.Denied{
				Code: claim.CodeHeld, Holder: "Oracle", ExpiresAt: noon, Detail: "held by Oracle",
			}},
		)
		_, err := c.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman"}, "")
		p, ok := errors.AsType[*api.Problem](err)
		if !ok || p.Code != "held" || p.Holder != "Oracle" || !p.ExpiresAt.Equal(noon) || err.Error() != "held by Oracle" {
			t.Errorf("Claim = %#v, want the denial", err)
		}
	})
}

// TestSilence tells who waits for a daemon that stands still, and nobody who waits for one that
// has something to wait for.
func TestSilence(t *testing.T) {
	for _, still := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			asked := make(chan string, 100)
			c := client.Over("/s", func(context.Context) (net.Conn, error) {
				mine, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					r, err := http.ReadRequest(bufio.NewReader(theirs))
					if err != nil {
						return
					}
					asked <- r.URL.Path
					if r.URL.Path == "/v1/status" && !still {
						io.WriteString(theirs, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
						return
					}
					io.Copy(io.Discard, theirs) // until the client goes away
				}()
				return mine, nil
			})
			began, told := time.Now(), []time.Duration(nil)
			c.OnSilence(10*time.Second, func() { told = append(told, time.Since(began)) })
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if _, err := c.Sweep(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
				synctest.Wait()
			}
			if want := []time.Duration{12 * time.Second}; still && !slices.Equal(told, want) || !still && told != nil {
				t.Errorf("stands still: %v: told after %v", still, told)
			}
			if n, want := len(asked), map[bool]int{true: 4, false: 6}[still]; n != want {
				t.Errorf("stands still: %v: %d requests, want %d", still, n, want)
			}
		})
	}
}

// TestUnreachable has no daemon at the other end.
func TestUnreachable(t *testing.T) {
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	missing := filepath.Join(dir, "missing.sock")
	forbidden := func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	}
	for _, tt := range []struct {
		name   string
		client *client.Client
		is     error
		want   string
	}{
		{"no socket", client.New(missing), fs.ErrNotExist, "no daemon can be reached on " + missing + ": no such file or directory: start it with: dibs serve"},
		{"socket left behind", client.New(stale), syscall.ECONNREFUSED, "no daemon can be reached on " + stale + ": connection refused: start it with: dibs serve"},
		{"not allowed", client.Over("/s", forbidden), fs.ErrPermission, "the daemon on /s cannot be reached: permission denied: the socket belongs to another user: ask for a place in its socket_group, or set DIBS_SOCKET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.client.Status(t.Context())
			unreachable, ok := errors.AsType[*client.UnreachableError](err)
			if !ok || unreachable.Sent || !errors.Is(err, tt.is) || err.Error() != tt.want {
				t.Errorf("Status = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestAnswers has something at the other end that is no daemon.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"gone", "", "the daemon on /s went away without an answer, and may have done what it was asked to: EOF: see dibs status, or ask again if that had a --request-id"},
		{"gone midway", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{", "the daemon on /s went away without an answer, and may have done what it was asked to: unexpected EOF: see dibs status, or ask again if that had a --request-id"},
		{"page", "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>\x1b]", `what answers on /s is not a dibs daemon that this program understands: 404 Not Found, "<p>\x1b]"`},
		{"no JSON", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", "200 OK"},
		{"JSON with an error status", "HTTP/1.1 500 Oops\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "500 Oops"},
		{"problem without a code", "HTTP/1.1 500 Oops\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n\r\n{}", "500 Oops"},
		{"somewhere else", "HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n", "302 Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				c := client.Over("/s", func(context.Context) (net.Conn, error) {
					requests++
					mine, theirs := net.Pipe()
					go func() {
						defer theirs.Close()
						request := make([]byte, 4096)
						theirs.Read(request)
						io.WriteString(theirs, tt.answer)
					}()
					return mine, nil
				})
				_, err := c.Sweep(t.Context(), "")
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Sweep = %v, want %q", err, tt.want)
				}
				unreachable, ok := errors.AsType[*client.UnreachableError](err)
				if gone := strings.HasPrefix(tt.name, "gone"); gone != ok || (ok && !unreachable.Sent) {
					t.Errorf("Sweep = %#v", err)
				}
				if requests != 1 {
					t.Errorf("%d requests were sent, want 1", requests)
				}
			})
		})
	}
}

// TestInterrupted ends the caller's context while the daemon works.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := daemon(t)
		b.Expect(servertest.Call{Method: "Status", During: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		stop := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stop) })
		if _, err := c.Status(ctx); err != stop {
			t.Errorf("Status = %#v, want what ended the context", err)
		}
	})
}

// TestRequest looks at a request as it is sent.
func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := servertest.NewPipe()
		var got *http.Request
		var body []byte
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		})}
		go s.Serve(pipe)
		defer s.Close()
		c := client.Over("/s", pipe.Dial)
		if _, err := c.Block(t.Context(), "a/b", api.BlockRequest{Reason: "<no>"}, "key 1"); err != nil {
			t.Fatal(err)
		}
		if got.RequestURI != "/v1/claims/a%2Fb/block" || got.Header.Get("Idempotency-Key") != "key 1" || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("sent %s with %v", got.RequestURI, got.Header)
		}
		if want := `{"reason":"\u003cno\u003e"}`; string(body) != want {
			t.Errorf("sent %s, want %s", body, want)
		}
		if _, err := c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			ask  func() error
			want string
		}{
			{func() error { _, err := c.Agents(t.Context(), 0); return err }, "/v1/agents"},
			{func() error { _, err := c.Agents(t.Context(), 30); return err }, "/v1/agents?days=30"},
			{func() error { _, err := c.History(t.Context(), 6, 10); return err }, "/v1/history?points=10"},
			{func() error {
				_, err := c.Tasks(t.Context(), api.TaskFilter{Ready: true, Filter: api.Filter{Where: []string{}}})
				return err
			}, "/v1/tasks?ready=true"},
			{func() error {
				_, err := c.Tasks(t.Context(), api.TaskFilter{Filter: api.Filter{Where: []string{"a=b", "c"}}})
				return err
			}, "/v1/tasks?where=a%3Db&where=c"},
			{func() error { _, err := c.Watch(t.Context(), "x", "", 0, time.Second); return err }, "/v1/claims/x?after=0&wait=1s"},
			{func() error { _, err := c.Lookup(t.Context(), "x", ""); return err }, "/v1/claims/x"},
			{func() error { _, err := c.Status(t.Context()); return err }, "/v1/status"},
		} {
			if err := tt.ask(); err != nil || got.RequestURI != tt.want {
				t.Errorf("sent %s, %v; want %s", got.RequestURI, err, tt.want)
			}
		}
		if len(got.Header.Values("Idempotency-Key")) > 0 || len(got.Header.Values("Content-Type")) > 0 || len(body) > 0 {
			t.Errorf("a question is sent with %v and %q", got.Header, body)
		}
	})
}
