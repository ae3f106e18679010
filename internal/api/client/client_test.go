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

// daemon answers every request with that status and document, and returns a client of it and
// what it was asked.
func daemon(t *testing.T, status int, document any) (*client.Client, *[]asked) {
	t.Helper()
	pipe, all := server.NewPipe(), new([]asked)
	body := testkit.Got(json.Marshal(document))(t)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		*all = append(*all, asked{r.Method + " " + r.RequestURI, r.Header.Get(api.KeyHeader), string(sent)})
		w.Header().Set("Content-Type", "application/json")
		if status >= http.StatusBadRequest {
			w.Header().Set("Content-Type", api.ProblemType)
		}
		w.WriteHeader(status)
		w.Write(body)
	})}
	go s.Serve(pipe)
	t.Cleanup(func() { s.Close() })
	return client.Over("/run/dibs.sock", pipe.Dial), all
}

// TestMethods asks for every operation, in full.
func TestMethods(t *testing.T) {
	const at = "/v1/claims/" + string(claimID)
	const about = "/v1/tasks/T-3"
	type C = *client.Client
	done := make(map[string]bool)
	for _, tt := range []struct {
		op   *api.Operation
		want asked
		ask  func(context.Context, C) (any, error)
	}{
		{api.OpClaim.Operation, asked{"POST /v1/claims", "k", `{"agent":"Sandman","task":"T-3","timeout_minutes":5,"wait_seconds":90}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpClaim, api.Keyed("k", api.ClaimRequest{Agent: "Sandman", Task: "T-3", TimeoutMinutes: 5, WaitSeconds: 90}))
		}},
		{api.OpListClaims.Operation, asked{"GET /v1/claims?agent=a+%26+b", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpListClaims, api.AgentFilter{Agent: "a & b"})
		}},
		{api.OpGetClaim.Operation, asked{"GET /v1/claims/mine?agent=Sandman", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: api.OnlyClaim, Agent: "Sandman", After: api.EventsFuture})
		}},
		{api.OpGetClaim.Operation, asked{"GET " + at + "?after=7&agent=Sandman&wait=1m30s", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: string(claimID), Agent: "Sandman", After: 7, Wait: (90 * time.Second).String()})
		}},
		{api.OpRenew.Operation, asked{"POST " + at + "/renew", "k", `{"agent":"Sandman"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpRenew, api.On(string(claimID), "k", api.RenewRequest{Agent: "Sandman"}))
		}},
		{api.OpComplete.Operation, asked{"POST " + at + "/complete", "k", `{"summary":"s"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpComplete, api.On(string(claimID), "k", api.CompleteRequest{Summary: "s"}))
		}},
		{api.OpReview.Operation, asked{"POST " + at + "/review", "k", `{"note":"n"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpReview, api.On(string(claimID), "k", api.ReviewRequest{Note: "n"}))
		}},
		{api.OpRelease.Operation, asked{"POST " + at + "/release", "k", `{"reason":"r"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpRelease, api.On(string(claimID), "k", api.StopRequest{Reason: "r"}))
		}},
		{api.OpBlock.Operation, asked{"POST " + at + "/block", "k", `{"reason":"r"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpBlock, api.On(string(claimID), "k", api.BlockRequest{Reason: "r"}))
		}},
		{api.OpFail.Operation, asked{"POST " + at + "/fail", "k", `{"reason":"r","reopen":true}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpFail, api.On(string(claimID), "k", api.FailRequest{Reason: "r", Reopen: true}))
		}},
		{api.OpAsk.Operation, asked{"POST " + at + "/ask", "k", `{"text":"which?","to":"Ada"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpAsk, api.On(string(claimID), "k", api.AskRequest{Text: "which?", To: "Ada"}))
		}},
		{api.OpListTasks.Operation, asked{"GET /v1/tasks?agent=Oracle&limit=3&ready=true&status=OPEN&where=a%3Db&where=c%3Dd&why=true", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpListTasks, api.ListTasksInput{Status: "OPEN", Ready: true, Why: true, Agent: "Oracle", Limit: 3, Where: []string{"a=b", "c=d"}})
		}},
		{api.OpListTasks.Operation, asked{"GET /v1/tasks", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpListTasks, api.ListTasksInput{Where: []string{}})
		}},
		{api.OpGetTask.Operation, asked{"GET " + about, "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpGetTask, api.GetTaskInput{ID: "T-3"})
		}},
		{api.OpGetTaskContent.Operation, asked{"GET " + about + "/content", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpGetTaskContent, api.GetTaskInput{ID: "T-3"})
		}},
		{api.OpAddTask.Operation, asked{"POST /v1/tasks", "k", `{"title":"Write"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpAddTask, api.AddInput{Key: "k", Body: api.AddRequest{Title: "Write"}})
		}},
		{api.OpComment.Operation, asked{"POST " + about + "/comments", "k", `{"agent":"Sandman","text":"hello"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpComment, api.OnTask("T-3", "k", api.CommentRequest{Agent: "Sandman", Text: "hello"}))
		}},
		{api.OpOffer.Operation, asked{"POST " + about + "/offer", "k", `{"agent":"Sandman","to":"Oracle"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpOffer, api.OnTask("T-3", "k", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
		}},
		{api.OpAccept.Operation, asked{"POST " + about + "/accept", "k", `{"agent":"Oracle"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpAccept, api.OnTask("T-3", "k", api.AcceptRequest{Agent: "Oracle"}))
		}},
		{api.OpDecline.Operation, asked{"POST " + about + "/decline", "k", `{"agent":"Oracle"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpDecline, api.OnTask("T-3", "k", api.DeclineRequest{Agent: "Oracle"}))
		}},
		{api.OpReopen.Operation, asked{"POST " + about + "/reopen", "k", `{"note":"n"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpReopen, api.ReopenInput{ID: "T-3", Key: "k", Body: &api.ReopenRequest{Note: "n"}})
		}},
		{api.OpReopenFailed.Operation, asked{"POST /v1/reopen", "k", `{"failed_by":["a b"]}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpReopenFailed, api.Keyed("k", api.ReopenFailedRequest{FailedBy: []string{"a b"}}))
		}},
		{api.OpPoll.Operation, asked{"POST /v1/agents/a%20b/poll", "k", `{"limit":3}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpPoll, api.PollInput{Name: "a b", Key: "k", Body: &api.PollRequest{Limit: 3}})
		}},
		{api.OpAck.Operation, asked{"POST /v1/agents/Sandman/ack", "k", `{"ids":["x"]}`}, func(ctx context.Context, c C) (any, error) {
			return c.Ack(ctx, "Sandman", api.AckRequest{IDs: []string{"x"}}, "k")
		}},
		{api.OpAckAny.Operation, asked{"POST /v1/ack", "k", `{"ids":["x"]}`}, func(ctx context.Context, c C) (any, error) {
			return c.Ack(ctx, "", api.AckRequest{IDs: []string{"x"}}, "k")
		}},
		{api.OpSend.Operation, asked{"POST /v1/messages", "k", `{"to":"all","text":"hello"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpSend, api.Keyed("k", api.MessageRequest{To: "all", Text: "hello"}))
		}},
		{api.OpMint.Operation, asked{"POST /v1/agents", "k", `{"session":"s"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpMint, api.MintInput{Key: "k", Body: &api.MintRequest{Session: "s"}})
		}},
		{api.OpGetAgent.Operation, asked{"GET /v1/agents/Sandman", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: "Sandman"})
		}},
		{api.OpGetAgent.Operation, asked{"GET /v1/agents/auto?session=s", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: task.AutoAgent, Session: "s"})
		}},
		{api.OpListAgents.Operation, asked{"GET /v1/agents", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpListAgents, api.ListAgentsInput{})
		}},
		{api.OpListAgents.Operation, asked{"GET /v1/agents?days=30", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpListAgents, api.ListAgentsInput{Days: 30})
		}},
		{api.OpReserve.Operation, asked{"POST /v1/reservations", "k", `{"agent":"Sandman","targets":[{"pattern":"name:a","at":[{"in":"names","path":"a"}]}],"folder":"/"}`}, func(ctx context.Context, c C) (any, error) {
			return c.Reserve(ctx, "/", []string{"name:a"}, api.ReserveRequest{Agent: "Sandman"}, "k")
		}},
		{api.OpReservations.Operation, asked{"GET /v1/reservations?agent=Sandman", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpReservations, api.ListReservationsInput{Agent: "Sandman"})
		}},
		{api.OpUnreserve.Operation, asked{"DELETE /v1/reservations/R?agent=Sandman", "", ""}, func(ctx context.Context, c C) (any, error) { return c.Unreserve(ctx, "R", "Sandman") }},
		{api.OpCheck.Operation, asked{"POST /v1/reservations/check", "", `{"agent":"Sandman","targets":[{"path":"name:a","at":[{"in":"names","path":"a"}]}]}`}, func(ctx context.Context, c C) (any, error) {
			return c.MayTouch(ctx, "Sandman", "/", "name:a")
		}},
		{api.OpReservations.Operation, asked{"GET /v1/reservations?targets=true", "", ""}, func(ctx context.Context, c C) (any, error) { return c.Reserved(ctx) }},
		{api.OpLog.Operation, asked{"GET /v1/log?after=E0&agent=Oracle&claim=" + string(claimID) + "&limit=3&task=T-3", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpLog, api.LogInput{Agent: "Oracle", Task: "T-3", Claim: string(claimID), After: "E0", Limit: 3})
		}},
		{api.OpStory.Operation, asked{"GET /v1/story/T-3", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpStory, api.StoryInput{ID: "T-3"})
		}},
		{api.OpReport.Operation, asked{"GET /v1/report?days=30", "", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpReport, api.ReportInput{Days: 30})
		}},
		{api.OpPause.Operation, asked{"POST /v1/pause", "k", `{"agent":"Sandman","for_seconds":60,"reason":"r"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpPause, api.Keyed("k", &api.PauseRequest{Agent: "Sandman", ForSeconds: 60, Reason: "r"}))
		}},
		{api.OpResume.Operation, asked{"POST /v1/resume", "k", `{"agent":"Sandman"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpResume, api.Keyed("k", &api.ResumeRequest{Agent: "Sandman"}))
		}},
		{api.OpSweep.Operation, asked{"POST /v1/sweep", "k", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpSweep, api.KeyedInput[*api.SweepRequest]{Key: "k"})
		}},
		{api.OpSweep.Operation, asked{"POST /v1/sweep", "k", `{"note":"n"}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpSweep, api.SweepOf("k", api.SweepRequest{Note: "n"}))
		}},
		{api.OpSync.Operation, asked{"POST /v1/sync", "k", `{"full":true}`}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpSync, api.Keyed("k", &api.SyncRequest{Full: true}))
		}},
		{api.OpStatus.Operation, asked{"GET /v1/status", "", ""}, func(ctx context.Context, c C) (any, error) { return client.Do(ctx, c, api.OpStatus, struct{}{}) }},
		{api.OpWebhook.Operation, asked{"GET /v1/webhook", "", ""}, func(ctx context.Context, c C) (any, error) { return client.Do(ctx, c, api.OpWebhook, struct{}{}) }},
		{api.OpRenewWebhook.Operation, asked{"POST /v1/webhook/renew", "k", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpRenewWebhook, api.BareInput{Key: "k"})
		}},
		{api.OpCluster.Operation, asked{"GET /v1/cluster", "", ""}, func(ctx context.Context, c C) (any, error) { return client.Do(ctx, c, api.OpCluster, struct{}{}) }},
		{api.OpAdoptCluster.Operation, asked{"POST /v1/cluster/adopt", "k", ""}, func(ctx context.Context, c C) (any, error) {
			return client.Do(ctx, c, api.OpAdoptCluster, api.BareInput{Key: "k"})
		}},
	} {
		done[tt.op.Name] = true
		t.Run(tt.want.line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, all := daemon(t, http.StatusOK, struct{}{})
				testkit.Got(tt.ask(t.Context(), c))(t)
				diff := cmp.Diff([]asked{tt.want}, *all, cmp.AllowUnexported(asked{}))
				testkit.Check(t, diff == "", "asked (-want +got):\n%s", diff)
			})
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
				_, err := client.Do(t.Context(), c, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
				testkit.Check(t, err != nil && strings.Contains(err.Error(), tt.want), "Sweep = %v, want %q", err, tt.want)
				unreachable, ok := errors.AsType[*client.UnreachableError](err)
				gone := strings.HasPrefix(tt.name, "gone")
				testkit.Check(t, gone == ok && (!ok || unreachable.Sent), "Sweep = %#v", err)
				testkit.Check(t, requests == 1, "%d requests were sent, want 1", requests)
			})
		})
	}
}

// TestInterrupted ends the caller's context while the daemon works.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := server.NewPipe()
		s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
		go s.Serve(pipe)
		defer s.Close()
		c := client.Over("/run/dibs.sock", pipe.Dial)
		stop := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stop) })
		_, err := client.Do(ctx, c, api.OpStatus, struct{}{})
		testkit.Check(t, err == stop, "Status = %#v, want what ended the context", err)
	})
}

// TestRequest looks at a request as it is sent.
func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := server.NewPipe()
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
		testkit.Got(client.Do(t.Context(), c, api.OpBlock, api.On("a/b", "key 1", api.BlockRequest{Reason: "<no>"})))(t)
		if got.RequestURI != "/v1/claims/a%2Fb/block" || got.Header.Get("Idempotency-Key") != "key 1" || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("sent %s with %v", got.RequestURI, got.Header)
		}
		want := `{"reason":"\u003cno\u003e"}`
		testkit.Check(t, string(body) == want, "sent %s, want %s", body, want)
		testkit.Got(client.Do(t.Context(), c, api.OpStatus, struct{}{}))(t)
		if len(got.Header.Values("Idempotency-Key")) > 0 || len(got.Header.Values("Content-Type")) > 0 || len(body) > 0 {
			t.Errorf("a question is sent with %v and %q", got.Header, body)
		}
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
		name       string
		key        string
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
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				daemon := &unsaving{until: begun.Add(tt.back), retryAfter: tt.retryAfter}
				pipe := server.NewPipe()
				web := &http.Server{Handler: daemon}
				go web.Serve(pipe)
				defer web.Close()
				c := client.Over("pipe", pipe.Dial)
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
