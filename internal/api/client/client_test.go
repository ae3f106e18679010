package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

const (
	taskID  = task.ID("11111111-2222-3333-4444-555555555555")
	claimID = claim.ID("01KA8XQ5V8ZJ6N3T4R7W9Y2M1D")
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// asked is a request as it arrives.
type asked struct{ line, key, body string }

// daemon answers every request with that status and document, and returns a client of it and what it was asked.
func daemon(t *testing.T, status int, document any) (*client.Client, *[]asked) {
	t.Helper()
	all := new([]asked)
	body := testkit.Got(json.Marshal(document))(t)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		testkit.Check(t, (len(sent) > 0) == (r.Header.Get("Content-Type") == "application/json"), "%s is sent with %v", sent, r.Header)
		*all = append(*all, asked{r.Method + " " + r.RequestURI, r.Header.Get(api.KeyHeader), string(sent)})
		w.Header().Set("Content-Type", "application/json")
		if status >= http.StatusBadRequest {
			w.Header().Set("Content-Type", api.ProblemType)
		}
		w.WriteHeader(status)
		w.Write(body)
	}), all
}

// serve returns a client of what answers so.
func serve(t *testing.T, answer http.HandlerFunc) *client.Client {
	pipe := server.NewPipe()
	s := &http.Server{Handler: answer}
	go s.Serve(pipe)
	t.Cleanup(func() { s.Close() })
	return client.Over("/run/dibs.sock", pipe.Dial)
}

// method is a way to ask for an operation, and what arrives.
type method struct {
	op   *api.Operation
	want asked
	ask  func(context.Context, *client.Client) (any, error)
}

// one asks for an operation as all do.
func one[In, Out any](op api.Op[In, Out], in In, line, key, body string) method {
	return method{op.Operation, asked{line, key, body}, func(ctx context.Context, c *client.Client) (any, error) { return client.Do(ctx, c, op, in) }}
}

// TestMethods asks for every operation, in full.
func TestMethods(t *testing.T) {
	const at = "/v1/claims/" + string(claimID)
	const about = "/v1/tasks/T-3"
	done := make(map[string]bool)
	for _, tt := range []method{
		one(api.OpClaim, api.Keyed("k", api.ClaimRequest{Agent: "Sandman", Task: "T-3", TimeoutMinutes: 5, WaitSeconds: 90}), "POST /v1/claims", "k", `{"agent":"Sandman","task":"T-3","timeout_minutes":5,"wait_seconds":90}`),
		one(api.OpListClaims, api.AgentFilter{Agent: "a & b"}, "GET /v1/claims?agent=a+%26+b", "", ""),
		one(api.OpGetClaim, api.GetClaimInput{ID: api.OnlyClaim, Agent: "Sandman", After: api.EventsFuture}, "GET /v1/claims/mine?agent=Sandman", "", ""),
		one(api.OpGetClaim, api.GetClaimInput{ID: string(claimID), Agent: "Sandman", After: 7, Wait: (90 * time.Second).String()}, "GET "+at+"?after=7&agent=Sandman&wait=1m30s", "", ""),
		one(api.OpRenew, api.On(string(claimID), "k", api.RenewRequest{Agent: "Sandman"}), "POST "+at+"/renew", "k", `{"agent":"Sandman"}`),
		one(api.OpComplete, api.On(string(claimID), "k", api.CompleteRequest{Summary: "s"}), "POST "+at+"/complete", "k", `{"summary":"s"}`),
		one(api.OpReview, api.On(string(claimID), "k", api.ReviewRequest{Note: "n"}), "POST "+at+"/review", "k", `{"note":"n"}`),
		one(api.OpRelease, api.On(string(claimID), "k", api.StopRequest{Reason: "r"}), "POST "+at+"/release", "k", `{"reason":"r"}`),
		one(api.OpBlock, api.On(string(claimID), "k", api.BlockRequest{Reason: "r"}), "POST "+at+"/block", "k", `{"reason":"r"}`),
		one(api.OpFail, api.On(string(claimID), "k", api.FailRequest{Reason: "r", Reopen: true}), "POST "+at+"/fail", "k", `{"reason":"r","reopen":true}`),
		one(api.OpAsk, api.On(string(claimID), "k", api.AskRequest{Text: "which?", To: "Ada"}), "POST "+at+"/ask", "k", `{"text":"which?","to":"Ada"}`),
		one(api.OpListTasks, api.ListTasksInput{Status: "OPEN", Ready: true, Why: true, Agent: "Oracle", Limit: 3, Where: []string{"a=b", "c=d"}}, "GET /v1/tasks?agent=Oracle&limit=3&ready=true&status=OPEN&where=a%3Db&where=c%3Dd&why=true", "", ""),
		one(api.OpListTasks, api.ListTasksInput{Where: []string{}}, "GET /v1/tasks", "", ""),
		one(api.OpGetTask, api.GetTaskInput{ID: "T-3"}, "GET "+about, "", ""),
		one(api.OpGetTaskContent, api.GetTaskInput{ID: "T-3"}, "GET "+about+"/content", "", ""),
		one(api.OpAddTask, api.AddInput{Key: "k", Body: api.AddRequest{Title: "Write"}}, "POST /v1/tasks", "k", `{"title":"Write"}`),
		one(api.OpComment, api.OnTask("T-3", "k", api.CommentRequest{Agent: "Sandman", Text: "hello"}), "POST "+about+"/comments", "k", `{"agent":"Sandman","text":"hello"}`),
		one(api.OpOffer, api.OnTask("T-3", "k", api.OfferRequest{Agent: "Sandman", To: "Oracle"}), "POST "+about+"/offer", "k", `{"agent":"Sandman","to":"Oracle"}`),
		one(api.OpAccept, api.OnTask("T-3", "k", api.AcceptRequest{Agent: "Oracle"}), "POST "+about+"/accept", "k", `{"agent":"Oracle"}`),
		one(api.OpDecline, api.OnTask("T-3", "k", api.DeclineRequest{Agent: "Oracle"}), "POST "+about+"/decline", "k", `{"agent":"Oracle"}`),
		one(api.OpReopen, api.ReopenInput{ID: "T-3", Key: "k", Body: &api.ReopenRequest{Note: "n"}}, "POST "+about+"/reopen", "k", `{"note":"n"}`),
		one(api.OpReopenFailed, api.Keyed("k", api.ReopenFailedRequest{FailedBy: []string{"a b"}}), "POST /v1/reopen", "k", `{"failed_by":["a b"]}`),
		one(api.OpPoll, api.PollInput{Name: "a b", Key: "k", Body: &api.PollRequest{Limit: 3}}, "POST /v1/agents/a%20b/poll", "k", `{"limit":3}`),
		{api.OpAck.Operation, asked{"POST /v1/agents/Sandman/ack", "k", `{"ids":["x"]}`}, func(ctx context.Context, c *client.Client) (any, error) {
			return c.Ack(ctx, "Sandman", api.AckRequest{IDs: []string{"x"}}, "k")
		}},
		{api.OpAckAny.Operation, asked{"POST /v1/ack", "k", `{"ids":["x"]}`}, func(ctx context.Context, c *client.Client) (any, error) {
			return c.Ack(ctx, "", api.AckRequest{IDs: []string{"x"}}, "k")
		}},
		one(api.OpSend, api.Keyed("k", api.MessageRequest{To: "all", Text: "hello"}), "POST /v1/messages", "k", `{"to":"all","text":"hello"}`),
		one(api.OpMint, api.MintInput{Key: "k", Body: &api.MintRequest{Session: "s"}}, "POST /v1/agents", "k", `{"session":"s"}`),
		one(api.OpGetAgent, api.GetAgentInput{Name: "Sandman"}, "GET /v1/agents/Sandman", "", ""),
		one(api.OpGetAgent, api.GetAgentInput{Name: task.AutoAgent, Session: "s"}, "GET /v1/agents/auto?session=s", "", ""),
		one(api.OpListAgents, api.ListAgentsInput{}, "GET /v1/agents", "", ""),
		one(api.OpListAgents, api.ListAgentsInput{Days: 30}, "GET /v1/agents?days=30", "", ""),
		{api.OpReserve.Operation, asked{"POST /v1/reservations", "k", `{"agent":"Sandman","targets":[{"pattern":"name:a","at":[{"in":"names","path":"a"}]}],"folder":"/"}`}, func(ctx context.Context, c *client.Client) (any, error) {
			return c.Reserve(ctx, "/", []string{"name:a"}, api.ReserveRequest{Agent: "Sandman"}, "k")
		}},
		one(api.OpReservations, api.ListReservationsInput{Agent: "Sandman"}, "GET /v1/reservations?agent=Sandman", "", ""),
		{api.OpUnreserve.Operation, asked{"DELETE /v1/reservations/R?agent=Sandman", "", ""}, func(ctx context.Context, c *client.Client) (any, error) { return c.Unreserve(ctx, "R", "Sandman") }},
		{api.OpCheck.Operation, asked{"POST /v1/reservations/check", "", `{"agent":"Sandman","targets":[{"path":"name:a","at":[{"in":"names","path":"a"}]}]}`}, func(ctx context.Context, c *client.Client) (any, error) {
			return c.MayTouch(ctx, "Sandman", "/", "name:a")
		}},
		{api.OpReservations.Operation, asked{"GET /v1/reservations?targets=true", "", ""}, func(ctx context.Context, c *client.Client) (any, error) { return c.Reserved(ctx) }},
		one(api.OpLog, api.LogInput{Agent: "Oracle", Task: "T-3", Claim: string(claimID), After: "E0", Limit: 3}, "GET /v1/log?after=E0&agent=Oracle&claim="+string(claimID)+"&limit=3&task=T-3", "", ""),
		one(api.OpStory, api.StoryInput{ID: "T-3"}, "GET /v1/story/T-3", "", ""),
		one(api.OpReport, api.ReportInput{Days: 30}, "GET /v1/report?days=30", "", ""),
		one(api.OpPause, api.Keyed("k", &api.PauseRequest{Agent: "Sandman", ForSeconds: 60, Reason: "r"}), "POST /v1/pause", "k", `{"agent":"Sandman","for_seconds":60,"reason":"r"}`),
		one(api.OpResume, api.Keyed("k", &api.ResumeRequest{Agent: "Sandman"}), "POST /v1/resume", "k", `{"agent":"Sandman"}`),
		one(api.OpSweep, api.KeyedInput[*api.SweepRequest]{Key: "k"}, "POST /v1/sweep", "k", ""),
		one(api.OpSweep, api.SweepOf("k", api.SweepRequest{Note: "n"}), "POST /v1/sweep", "k", `{"note":"n"}`),
		one(api.OpSync, api.Keyed("k", &api.SyncRequest{Full: true}), "POST /v1/sync", "k", `{"full":true}`),
		one(api.OpStatus, struct{}{}, "GET /v1/status", "", ""),
		one(api.OpWebhook, struct{}{}, "GET /v1/webhook", "", ""),
		one(api.OpRenewWebhook, api.BareInput{Key: "k"}, "POST /v1/webhook/renew", "k", ""),
		one(api.OpCluster, struct{}{}, "GET /v1/cluster", "", ""),
		one(api.OpAdoptCluster, api.BareInput{Key: "k"}, "POST /v1/cluster/adopt", "k", ""),
		one(api.OpAccess, struct{}{}, "GET /v1/access", "", ""),
		one(api.OpNewToken, api.Keyed("k", api.TokenRequest{Agent: "ci-*", ForSeconds: 60, Note: "n"}), "POST /v1/tokens", "k", `{"agent":"ci-*","for_seconds":60,"note":"n"}`),
		one(api.OpTokens, struct{}{}, "GET /v1/tokens", "", ""),
		one(api.OpRevokeToken, api.TokenInput{ID: "x"}, "DELETE /v1/tokens/x", "", ""),
	} {
		done[tt.op.Name] = true
		testkit.Bubble(t, tt.want.line, func(t *testing.T) {
			c, all := daemon(t, http.StatusOK, struct{}{})
			testkit.Got(tt.ask(t.Context(), c))(t)
			testkit.Check(t, slices.Equal(*all, []asked{tt.want}), "asked %q, want %q", *all, tt.want)
		})
	}
	for _, op := range api.Operations() {
		testkit.Check(t, done[op.Name] || op.Sends != "", "nobody asks for %s", op.Name)
	}
}

// TestAnswer reads what the daemon says.
func TestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := api.Claim{
			ID: claimID, Agent: "Sandman", State: claim.Held, ClaimedAt: api.Time{Time: noon}, ExpiresAt: api.Time{Time: noon.Add(time.Hour)},
			Task:  api.TaskRef{ID: taskID, Title: "Write", Status: task.InProgress, Priority: "low"},
			Event: &api.Event{ID: 8, At: api.Time{Time: noon}, Kind: claim.KindConflict, Holder: "Oracle"},
		}
		c, _ := daemon(t, http.StatusOK, want)
		got, err := client.Do(t.Context(), c, api.OpGetClaim, api.GetClaimInput{ID: string(claimID), Agent: "Sandman", After: 7, Wait: (90 * time.Second).String()})
		diff := cmp.Diff(want, got)
		testkit.Check(t, err == nil && diff == "", "err = %v, claim (-want +got):\n%s", err, diff)
	})
}

func TestProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := api.NewProblem(api.Code(claim.CodeHeld), "held by Oracle")
		held.Holder, held.ExpiresAt = "Oracle", api.Time{Time: noon}
		c, _ := daemon(t, held.Status, held)
		_, err := client.Do(t.Context(), c, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman"}))
		diff := cmp.Diff(error(held), err)
		testkit.Check(t, diff == "" && err.Error() == "held by Oracle", "the denial (-want +got):\n%s", diff)
	})
}

// TestSilence tells who waits for a daemon that stands still, and nobody who waits for one that has something to wait for.
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
				if _, err := client.Do(ctx, c, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
				synctest.Wait()
			}
			if want := []time.Duration{12 * time.Second}; still && !slices.Equal(told, want) || !still && told != nil {
				t.Errorf("stands still: %v: told after %v", still, told)
			}
			n, want := len(asked), map[bool]int{true: 4, false: 6}[still]
			testkit.Check(t, n == want, "stands still: %v: %d requests, want %d", still, n, want)
		})
	}
}

// TestUnreachable has no daemon at the other end.
func TestUnreachable(t *testing.T) {
	dir := testkit.Got(os.MkdirTemp("", "dibs"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	stale := filepath.Join(dir, "stale.sock")
	l := testkit.Got(net.Listen("unix", stale))(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	missing := filepath.Join(dir, "missing.sock")
	failing := func(call string, errno syscall.Errno) *client.Client {
		return client.Over("/s", func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError(call, errno)}
		})
	}
	const sandboxed = "the daemon on /s cannot be asked: operation not permitted: a sandbox keeps this process from its socket: use the tools of dibs mcp, which run outside of it, or have a person allow the socket (docs/clients.md, In a sandbox)"
	for _, tt := range []struct {
		name   string
		client *client.Client
		is     error
		want   string
	}{
		{"no socket", client.New(missing), fs.ErrNotExist, "no daemon can be reached on " + missing + ": no such file or directory: start it with: dibs serve"},
		{"socket left behind", client.New(stale), syscall.ECONNREFUSED, "no daemon can be reached on " + stale + ": connection refused: start it with: dibs serve"},
		{"not allowed", failing("connect", syscall.EACCES), fs.ErrPermission, "the daemon on /s cannot be reached: permission denied: the socket belongs to another user: ask for a place in its socket_group, or set DIBS_SOCKET"},
		{"no sockets", failing("socket", syscall.EPERM), syscall.EPERM, sandboxed},
		{"not this socket", failing("connect", syscall.EPERM), syscall.EPERM, sandboxed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := client.Do(t.Context(), tt.client, api.OpStatus, struct{}{})
			unreachable, ok := errors.AsType[*client.UnreachableError](err)
			testkit.Check(t, ok && !unreachable.Sent && errors.Is(err, tt.is) && err.Error() == tt.want,
				"Status = %v, want %q", err, tt.want)
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
		testkit.Bubble(t, tt.name, func(t *testing.T) {
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
			_, err := client.Do(t.Context(), c, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
			testkit.Fails(t, err, tt.want)
			unreachable, ok := errors.AsType[*client.UnreachableError](err)
			gone := strings.HasPrefix(tt.name, "gone")
			testkit.Check(t, gone == ok && (!ok || unreachable.Sent), "Sweep = %#v", err)
			testkit.Check(t, requests == 1, "%d requests were sent, want 1", requests)
		})
	}
}

// TestInterrupted ends the caller's context while the daemon works.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		stop := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stop) })
		_, err := client.Do(ctx, c, api.OpStatus, struct{}{})
		testkit.Check(t, err == stop, "Status = %#v, want what ended the context", err)
	})
}

// unsaving is a daemon whose journal cannot be used until a time.
type unsaving struct {
	until      time.Time
	retryAfter int
	keys       []string
	asked      []time.Time
}

func (u *unsaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.keys, u.asked = append(u.keys, r.Header.Get(api.KeyHeader)), append(u.asked, time.Now())
	if time.Now().Before(u.until) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"code":"journal_unavailable","detail":"no","retry_after":%d}`, u.retryAfter)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"done"}`)
}

// What cannot be saved is asked again under one key, for the time that was said, as rarely as
// the daemon asks for, and not after the end of the context.
func TestInsist(t *testing.T) {
	for _, tt := range []struct {
		name, key  string
		back       time.Duration // until the journal can be used
		retryAfter int
		insist     time.Duration
		stopped    time.Duration // when the context ends; 0: never
		asked      int
		ended      time.Duration
		done       bool
	}{
		{name: "it can be saved", insist: time.Minute, asked: 1, done: true},
		{name: "not for long", back: 12 * time.Second, retryAfter: 5, insist: time.Minute, asked: 4, ended: 15 * time.Second, done: true},
		{name: "with a key of the caller's", key: "mine", back: 2 * time.Second, retryAfter: 5, insist: time.Minute, asked: 2, ended: 5 * time.Second, done: true},
		{name: "for longer than a minute", back: time.Hour, retryAfter: 20, insist: time.Minute, asked: 4, ended: time.Minute},
		{name: "until somebody does something", back: time.Hour, insist: time.Minute, asked: 1},
		{name: "later than it is waited for", back: time.Hour, retryAfter: 61, insist: time.Minute, asked: 1},
		{name: "a script", back: time.Hour, retryAfter: 5, asked: 1},
		{name: "after a signal", back: time.Hour, retryAfter: 5, insist: time.Minute, stopped: 7 * time.Second, asked: 2, ended: 7 * time.Second},
	} {
		testkit.Bubble(t, tt.name, func(t *testing.T) {
			begun := time.Now()
			daemon := &unsaving{until: begun.Add(tt.back), retryAfter: tt.retryAfter}
			c := serve(t, daemon.ServeHTTP)
			told := 0
			if tt.insist > 0 {
				c.Insist(tt.insist, func(*api.Problem) { told++ })
			}
			ctx := t.Context()
			if tt.stopped > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.stopped)
				defer cancel()
			}
			_, err := client.Do(ctx, c, api.OpComplete, api.On("x", tt.key, api.CompleteRequest{}))
			p, refused := errors.AsType[*api.Problem](err)
			testkit.Check(t, tt.done == (err == nil) && (tt.done || refused && p.Code == api.Code(claim.CodeJournalUnavailable)),
				"Complete = %v", err)
			if took := time.Since(begun); len(daemon.asked) != tt.asked || took != tt.ended {
				t.Errorf("asked %d times in %v, want %d in %v", len(daemon.asked), took, tt.asked, tt.ended)
			}
			want := min(1, tt.asked-1)
			testkit.Check(t, told == want, "told %d times, want %d", told, want)
			for _, key := range daemon.keys {
				testkit.Check(t, key == daemon.keys[0] && (tt.key == "" || key == tt.key) && (key == "") == (tt.insist == 0),
					"the keys are %q", daemon.keys)
			}
			key := daemon.keys[0]
			testkit.Check(t, key == "" || api.ValidateKey(key) == nil && api.Outlives(key) == (tt.key != ""), "the key is %q", key)
		})
	}
}

// TestAwait has a daemon stop half a minute into requests, once or for good. What waits is asked for
// again, for the rest of its time; with a key, as it was. What does not wait is answered.
func TestAwait(t *testing.T) {
	claims := func(key string) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := client.Do(ctx, c, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: "Oracle", WaitSeconds: 60}))
			return err
		}
	}
	for _, tt := range []struct {
		name  string
		await time.Duration
		stops int
		ask   func(context.Context, *client.Client) error
		first string // in the first request
		rest  string // in the others
		asked int
		fails bool
	}{
		{name: "a claim", await: client.Restart, stops: 1, ask: claims(""), first: `"wait_seconds":60`, rest: `"wait_seconds":29.75`, asked: 2},
		{name: "a claim with a key", await: client.Restart, stops: 1, ask: claims("k"), first: `"wait_seconds":60`, rest: `"wait_seconds":60`, asked: 2},
		{name: "nobody awaits a restart", stops: 1, ask: claims(""), first: `"wait_seconds":60`, asked: 1, fails: true},
		{name: "for good", await: client.Restart, stops: 99, ask: claims("k"), first: `"wait_seconds":60`, rest: `"wait_seconds":60`, asked: 21, fails: true},
		{name: "a poll", await: client.Restart, stops: 1, asked: 2, first: `"wait_seconds":60`, rest: `"wait_seconds":29.75`, ask: func(ctx context.Context, c *client.Client) error {
			_, err := client.Do(ctx, c, api.OpPoll, api.PollInput{Name: "Oracle", Body: &api.PollRequest{WaitSeconds: 60}})
			return err
		}},
		{name: "a watch", await: client.Restart, stops: 1, asked: 2, first: "wait=1m0s", rest: "wait=29.75s", ask: func(ctx context.Context, c *client.Client) error {
			_, err := client.Do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: "x", Wait: "1m0s"})
			return err
		}},
		{name: "the end of a claim", await: client.Restart, stops: 1, asked: 1, fails: true, ask: func(ctx context.Context, c *client.Client) error {
			_, err := client.Do(ctx, c, api.OpComplete, api.On("x", "", api.CompleteRequest{}))
			return err
		}},
	} {
		testkit.Bubble(t, tt.name, func(t *testing.T) {
			asked := 0
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				want := tt.first
				if asked++; asked > 1 {
					want = tt.rest
				}
				testkit.Check(t, strings.Contains(r.RequestURI+string(body), want), "request %d is %s %s, want %s", asked, r.RequestURI, body, want)
				if asked > tt.stops {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"id":"done"}`)
					return
				}
				time.Sleep(30 * time.Second)
				w.Header().Set("Content-Type", api.ProblemType)
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"code":"stopping","detail":"no"}`)
			})
			c.Await(tt.await)
			err := tt.ask(t.Context(), c)
			p, refused := errors.AsType[*api.Problem](err)
			testkit.Check(t, asked == tt.asked && (err != nil) == tt.fails && (err == nil || refused && p.Code == api.CodeStopping), "asked %d times: %v", asked, err)
		})
	}
}

// TestTaken compares more files than go at once with what the daemon says is reserved: in one
// request, and as many of them as there is time for.
func TestTaken(t *testing.T) {
	dir := testkit.Got(filepath.EvalSymlinks(t.TempDir()))(t)
	spot := api.Spot{In: reserve.Files, Path: "/" + reserve.Escape(strings.Trim(dir, "/")) + "/f-*"}
	c, _ := daemon(t, http.StatusOK, api.Reservations{Reservations: []api.Reservation{{
		ID: "R", Agent: "Oracle", ExpiresAt: api.Time{Time: time.Now().Add(time.Hour)}, Patterns: []string{"f-*"},
		Targets: []api.ReserveTarget{{Pattern: "f-*", At: []api.Spot{spot}}},
	}}})
	set := testkit.Got(c.Reserved(t.Context()))(t)
	var paths []string
	for i := range 2500 {
		paths = append(paths, fmt.Sprintf("g-%d", i))
	}
	paths[0], paths[2499] = "f-0", "f-2499"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found []string
	note := func(t *reserve.Taken) { found = append(found, t.Asked+" "+t.By.Agent+" "+t.Pattern) }
	if err := client.Taken(ctx, set, "Sandman", dir, paths, note); err != nil || strings.Join(found, ", ") != "f-0 Oracle f-*, f-2499 Oracle f-*" {
		t.Errorf("found %v, %v", found, err)
	}
	found = nil
	if err := client.Taken(ctx, set, "Oracle", dir, paths, note); err != nil || found != nil {
		t.Errorf("what is Oracle's own: %v, %v", found, err)
	}
	// What is known by the end of the time is told, and what is not is named.
	err := client.Taken(ctx, set, "Sandman", dir, paths, func(t *reserve.Taken) { note(t); cancel() })
	testkit.Check(t, len(found) == 1 && err != nil && err.Error() == "there was no time for 1500 of 2500 files, from g-1000 on",
		"found %v, %v", found, err)
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := []api.Event{
			{ID: 5, At: api.Time{Time: noon}, Kind: claim.KindEdited, Task: &api.TaskRef{ID: taskID, Title: "line\nend", Priority: "low"}, Changed: []string{"title"}},
			{ID: 6, At: api.Time{Time: noon}, Kind: api.LeaseExpiring, Task: &api.TaskRef{ID: taskID, Priority: "none"}, Agent: "a & b", Claim: claimID, ExpiresAt: api.Time{Time: noon.Add(time.Minute)}},
		}
		var line string
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			line = r.RequestURI
			w.Header().Set("Content-Type", api.EventStream)
			for _, e := range want {
				data, _ := json.Marshal(e)
				fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, data)
			}
		})
		var got []api.Event
		filter := api.EventsInput{After: 4, Agent: "a & b", Task: string(taskID)}
		next, err := c.Events(t.Context(), filter, false, func(e api.Event) error { got = append(got, e); return nil })
		diff := cmp.Diff(want, got)
		testkit.Check(t, err == nil && next == 6 && diff == "", "next = %d, want 6; err = %v; events (-want +got):\n%s", next, err, diff)
		if want := "/v1/events?after=4&agent=a+%26+b&follow=false&task=" + string(taskID); line != want {
			t.Errorf("asked for %s, want %s", line, want)
		}

		enough := errors.New("enough")
		next, err = c.Events(t.Context(), filter, true, func(e api.Event) error {
			if e.ID == 6 {
				return enough
			}
			return nil
		})
		testkit.Check(t, errors.Is(err, enough) && next == 5,
			"next = %d, err = %v; want 5, which the reader took, and its error", next, err)
	})
}

func TestEventsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := daemon(t, http.StatusUnprocessableEntity, api.NewProblem(api.CodeInvalidRequest, "no"))
		_, err := c.Events(t.Context(), api.EventsInput{After: -2}, false, nil)
		p, ok := errors.AsType[*api.Problem](err)
		testkit.Check(t, ok && p.Code == api.CodeInvalidRequest, "err = %v, want an invalid request", err)
		nowhere := client.Over("/run/dibs.sock", func(context.Context) (net.Conn, error) { return nil, net.ErrClosed })
		next, err := nowhere.Events(t.Context(), api.EventsInput{After: 7}, false, nil)
		if u, ok := errors.AsType[*client.UnreachableError](err); !ok || u.Sent || next != 7 {
			t.Errorf("no daemon: next = %d, err = %v; want 7, and that it was not reached", next, err)
		}
		// A reader that goes away says so itself.
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		_, err = c.Events(ctx, api.EventsInput{}, false, nil)
		testkit.Check(t, errors.Is(err, gone), "err = %v, want the cause of the end", err)
	})
}

// TestEventsGoOn ends streams, in an orderly way and not, and looks from where a reader would go on.
func TestEventsGoOn(t *testing.T) {
	const event = "id: 17\nevent: ready\ndata: {\"id\":17,\"kind\":\"ready\"}\n\n"
	beat := func(id string) string { return ": alive\nid: " + id + "\n\n" }
	for name, tt := range map[string]struct {
		stream string
		next   int64
		events int
	}{
		"nothing":                            {"", 12, 0},
		"only beats":                         {beat("16") + beat("95"), 95, 0},
		"an event":                           {beat("16") + event, 17, 1},
		"an event, and others since":         {beat("16") + event + beat("18"), 18, 1},
		"within the id of a beat":            {beat("16") + ": alive\nid: 9", 16, 0},
		"after the id of an event":           {beat("16") + "id: 17\n", 16, 0},
		"within an event":                    {beat("16") + event[:len(event)-5], 16, 0},
		"an event, without its last line":    {beat("16") + event[:len(event)-1], 16, 0},
		"of a daemon that sends ids in vain": {beat("x"), 12, 0},
	} {
		for _, broken := range []bool{false, true} {
			testkit.Bubble(t, fmt.Sprintf("%s, broken: %v", name, broken), func(t *testing.T) {
				c := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", api.EventStream)
					io.WriteString(w, tt.stream)
					http.NewResponseController(w).Flush()
					if broken {
						panic(http.ErrAbortHandler)
					}
				})
				heard := 0
				next, err := c.Events(t.Context(), api.EventsInput{After: 12}, true, func(api.Event) error { heard++; return nil })
				testkit.Check(t, next == tt.next && heard == tt.events,
					"next = %d after %d events, want %d after %d", next, heard, tt.next, tt.events)
				u, ok := errors.AsType[*client.UnreachableError](err)
				testkit.Check(t, ok == broken && (!ok || u.Sent) && (ok || err == nil), "err = %v", err)
			})
		}
	}
}
