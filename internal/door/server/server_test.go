package server_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/outbox"
	"dibs/internal/task"
	"dibs/internal/testkit"
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

// start serves on connections without sockets until the test ends. listed are the users that the configuration names.
func start(t *testing.T, listed ...int) *fixture {
	t.Helper()
	f := &fixture{t: t, broker: newFake(t), keys: newMemory(t), pipe: server.NewPipe(), log: new(logBuffer)}
	f.server = server.New(server.Options{Broker: f.broker, Journal: f.keys, Version: "v1.2.3", Log: f.logger(), Metrics: f})
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
		err := s.Shutdown(context.Background())
		testkit.Check(f.t, err == nil, "Shutdown: %v", err)
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

// dialer connects, as the thread's user, for a request that is made from another thread.
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
	testkit.Require(f.t, err == nil, "%s %s: %v", method, path, err)
	return a
}

// logged returns what the server has logged, once it has nothing left to do.
func (f *fixture) logged() string {
	synctest.Wait()
	return f.log.String()
}

// logs fails the test for what the log lacks.
func (f *fixture) logs(parts ...string) {
	f.t.Helper()
	testkit.Says(f.t, "the log", f.logged(), parts...)
}

// dial connects until the test ends.
func (f *fixture) dial(to *server.Pipe) net.Conn {
	f.t.Helper()
	conn := testkit.Got(to.Dial(f.t.Context()))(f.t)
	f.t.Cleanup(func() { conn.Close() })
	return conn
}

// served runs the test with a server, in virtual time.
func served(t *testing.T, name string, test func(*testing.T, *fixture)) {
	t.Helper()
	testkit.Bubble(t, name, func(t *testing.T) { test(t, start(t)) })
}

type (
	ctx    = context.Context
	caller = broker.Caller
)

// fake is a broker that does what a test says. Who may go by which name, and what an error
// means, it knows itself; what a test has not said panics.
type fake struct {
	*broker.Broker
	real    bool // the broker itself is asked for claims, events and the record: it refuses before it looks
	anyone  bool // may go by any name
	claim   func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error)
	claims  []api.Claim
	lookup  func(id, agent string) (api.Claim, error)
	act     func(what, id string, with any) (api.Claim, error) // renew, finish, connect, spend
	left    atomic.Bool                                        // what connected has left
	events  func(context.Context, api.EventsInput, time.Duration) ([]api.Event, int64, error)
	watch   func(api.GetClaimInput) (api.Claim, error)
	get     func(context.Context) (api.Claim, error) // a wait for a claim, before watch
	tasks   func(api.ListTasksInput) (api.Tasks, error)
	sweep   func(context.Context, broker.Caller) (api.Sweep, error)
	owing   func(what string, by caller, in any) error // all else that is done
	status  func() (api.Status, error)
	swept   atomic.Int32
	claimed atomic.Int32
}

func newFake(t *testing.T) *fake {
	t.Helper()
	return &fake{
		Broker: broker.New(broker.Config{Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler)}),
		claim:  func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) { return held(), nil },
		lookup: func(string, string) (api.Claim, error) { return held(), nil },
		act:    func(string, string, any) (api.Claim, error) { return held(), nil },
		sweep:  func(context.Context, broker.Caller) (api.Sweep, error) { return api.Sweep{Swept: []api.Swept{}}, nil },
		status: func() (api.Status, error) { return api.Status{}, nil },
		owing:  func(string, caller, any) error { return nil },
	}
}

// only has the broker allow no other name.
func (f *fake) only(name string) { f.SetAgents([]broker.Agent{{Name: name}}) }

func (f *fake) Authorize(name string, w caller) error {
	if f.anyone {
		return nil
	}
	return f.Broker.Authorize(name, w)
}

func (f *fake) Claim(ctx context.Context, who broker.Caller, in *api.KeyedInput[api.ClaimRequest]) (api.Claim, error) {
	if f.claimed.Add(1); f.real {
		return f.Broker.Claim(ctx, who, in)
	}
	return f.claim(ctx, who, in.Body)
}

func (f *fake) Claims(string) api.Claims { return api.Claims{Claims: f.claims} }
func (f *fake) ListClaims(_ ctx, w caller, in *api.AgentFilter) (api.Claims, error) {
	return f.Claims(""), f.owing("ListClaims", w, in)
}
func (f *fake) Lookup(_ ctx, id, agent string) (api.Claim, error) { return f.lookup(id, agent) }
func (f *fake) GetClaim(ctx context.Context, who broker.Caller, in *api.GetClaimInput) (api.Claim, error) {
	switch {
	case f.real:
		return f.Broker.GetClaim(ctx, who, in)
	case in.Wait != "" && f.get != nil:
		return f.get(ctx)
	case in.Wait != "":
		return f.watch(*in)
	}
	return f.lookup(in.ID, in.Agent)
}

func (f *fake) Renew(ctx context.Context, who broker.Caller, in *api.ClaimInput[api.RenewRequest]) (api.Claim, error) {
	if f.real {
		return f.Broker.Renew(ctx, who, in)
	}
	return f.act("renew", in.ID, who)
}

func (f *fake) Spend(_ context.Context, id claim.ID, used claim.Usage) error {
	if used.None() {
		return nil
	}
	_, err := f.act("spend", string(id), used)
	return err
}

func (f *fake) Complete(_ ctx, _ caller, in *api.ClaimInput[api.CompleteRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}
func (f *fake) Review(_ ctx, _ caller, in *api.ClaimInput[api.ReviewRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}
func (f *fake) Release(_ ctx, _ caller, in *api.ClaimInput[api.StopRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}
func (f *fake) Block(_ ctx, _ caller, in *api.ClaimInput[api.BlockRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}
func (f *fake) Fail(_ ctx, _ caller, in *api.ClaimInput[api.FailRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}
func (f *fake) Ask(_ ctx, _ caller, in *api.ClaimInput[api.AskRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}
func (f *fake) KeepAlive(ctx context.Context, who broker.Caller, in *api.KeepAliveInput) (api.Claim, func(), error) {
	if f.real {
		return f.Broker.KeepAlive(ctx, who, in)
	}
	c, err := f.act("connect", in.ID, in.Grace)
	return c, func() { f.left.Store(true) }, err
}

func (f *fake) Watch(_ ctx, in *api.GetClaimInput) (api.Claim, error) { return f.watch(*in) }
func (f *fake) Events(c ctx, e api.EventsInput, wait time.Duration) ([]api.Event, int64, error) {
	return f.events(c, e, wait)
}
func (f *fake) ListTasks(_ ctx, _ caller, in *api.ListTasksInput) (api.Tasks, error) {
	return f.tasks(*in)
}
func (f *fake) GetTask(ctx, caller, *api.GetTaskInput) (out api.Task, err error) { return }
func (f *fake) Log(ctx context.Context, who broker.Caller, in *api.LogInput) (api.Log, error) {
	if f.real {
		return f.Broker.Log(ctx, who, in)
	}
	return api.Log{}, nil
}

func (f *fake) Sweep(ctx context.Context, who broker.Caller, _ *api.KeyedInput[*api.SweepRequest]) (api.Sweep, error) {
	f.swept.Add(1)
	return f.sweep(ctx, who)
}

func (f *fake) Status(ctx, caller, *struct{}) (api.Status, error) { return f.status() }
func (f *fake) Sync(_ ctx, w caller, in *api.KeyedInput[*api.SyncRequest]) (out api.Sync, err error) {
	return out, f.owing("Sync", w, in)
}
func (f *fake) AddTask(_ ctx, w caller, in *api.AddInput) (out api.Added, err error) {
	return out, f.owing("AddTask", w, in)
}
func (f *fake) Comment(_ ctx, w caller, in *api.TaskInput[api.CommentRequest]) (out api.Commented, err error) {
	return out, f.owing("Comment", w, in)
}
func (f *fake) Offer(_ ctx, w caller, in *api.TaskInput[api.OfferRequest]) (out api.Offered, err error) {
	return out, f.owing("Offer", w, in)
}
func (f *fake) Decline(_ ctx, w caller, in *api.TaskInput[api.DeclineRequest]) (out api.Offered, err error) {
	return out, f.owing("Decline", w, in)
}
func (f *fake) Reopen(_ ctx, w caller, in *api.ReopenInput) (out api.Reopened, err error) {
	return out, f.owing("Reopen", w, in)
}
func (f *fake) ReopenFailed(_ ctx, w caller, in *api.KeyedInput[api.ReopenFailedRequest]) (out api.ReopenedTasks, err error) {
	return out, f.owing("ReopenFailed", w, in)
}
func (f *fake) Poll(_ ctx, w caller, in *api.PollInput) (out api.Triggers, err error) {
	return out, f.owing("Poll", w, in)
}
func (f *fake) Send(_ ctx, w caller, in *api.KeyedInput[api.MessageRequest]) (out api.Message, err error) {
	return out, f.owing("Send", w, in)
}
func (f *fake) Mint(_ ctx, w caller, in *api.MintInput) (out api.Minted, err error) {
	return out, f.owing("Mint", w, in)
}
func (f *fake) Check(_ ctx, w caller, in *api.CheckInput) (out api.Checked, err error) {
	return out, f.owing("Check", w, in)
}
func (f *fake) Reservations(_ ctx, w caller, in *api.ListReservationsInput) (out api.Reservations, err error) {
	return out, f.owing("Reservations", w, in)
}
func (f *fake) Pause(_ ctx, w caller, in *api.KeyedInput[*api.PauseRequest]) (out api.Paused, err error) {
	return out, f.owing("Pause", w, in)
}
func (f *fake) Resume(_ ctx, w caller, in *api.KeyedInput[*api.ResumeRequest]) (out api.Paused, err error) {
	return out, f.owing("Resume", w, in)
}
func (f *fake) AdoptCluster(_ ctx, w caller, in *api.BareInput) (out api.Cluster, err error) {
	return out, f.owing("AdoptCluster", w, in)
}
func (f *fake) RenewWebhook(_ ctx, w caller, in *api.BareInput) (out api.Webhook, err error) {
	return out, f.owing("RenewWebhook", w, in)
}

func (f *fake) NewToken(_ ctx, w caller, in *api.KeyedInput[api.TokenRequest]) (out api.NewToken, err error) {
	return out, f.owing("NewToken", w, in)
}
func (f *fake) RevokeToken(_ ctx, w caller, in *api.TokenInput) (out api.Token, err error) {
	return out, f.owing("RevokeToken", w, in)
}

// memory is a memory for idempotency keys. It fails the test when it is used
// against its contract, and does nothing once a context has ended.
type memory struct {
	t    testing.TB
	mu   sync.Mutex
	rows map[ownKey]*row
	// lost is why the claims of requests cannot be looked up, nil if they can.
	lost error
}

type row struct {
	fingerprint string
	interrupted bool
	answer      *outbox.Answer
	claim       claim.ID
}

// ownKey is a user's key.
type ownKey struct {
	uid int
	key string
}

// unknown is the user of a pipe, of whom nothing is known.
const unknown = -1

// newMemory returns an empty memory.
func newMemory(t testing.TB) *memory { return &memory{t: t, rows: make(map[ownKey]*row)} }

// with does something to the request of a key, unless the context has ended.
func (k *memory) with(ctx context.Context, uid int, key string, do func(r *row)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil {
		do(k.rows[ownKey{uid, key}])
	}
	return ctx.Err()
}

// BeginRequest begins a request.
func (k *memory) BeginRequest(ctx context.Context, uid int, key, fingerprint string, _ time.Time) (a *outbox.Answer, err error) {
	gone := k.with(ctx, uid, key, func(r *row) {
		switch {
		case r == nil:
			k.rows[ownKey{uid, key}] = &row{fingerprint: fingerprint}
		case r.fingerprint != fingerprint:
			err = outbox.ErrReused
		case r.answer == nil:
			testkit.Check(k.t, r.interrupted || r.claim != "", "key %q is begun while its first request is in flight", key)
			err = outbox.ErrUnanswered
		default:
			a = r.answer
		}
	})
	return a, cmp.Or(gone, err)
}

// FinishRequest stores the answer.
func (k *memory) FinishRequest(ctx context.Context, uid int, key string, a outbox.Answer) error {
	return k.with(ctx, uid, key, func(r *row) {
		if r == nil || r.answer != nil {
			k.t.Errorf("key %q gets an answer, and needs none", key)
			return
		}
		r.answer = &a
	})
}

// DropRequest forgets the request.
func (k *memory) DropRequest(ctx context.Context, uid int, key string) error {
	return k.with(ctx, uid, key, func(r *row) {
		testkit.Check(k.t, r != nil && r.answer == nil, "key %q is dropped, and has nothing to drop", key)
		delete(k.rows, ownKey{uid, key})
	})
}

// RequestMade returns what was made for the request.
func (k *memory) RequestMade(ctx context.Context, uid int, key string) (made string, err error) {
	gone := k.with(ctx, uid, key, func(r *row) {
		if err = k.lost; r != nil && err == nil {
			made = string(r.claim)
		}
	})
	return made, cmp.Or(gone, err)
}

// Bind notes that the claim was made for the request of that key.
func (k *memory) Bind(key string, id claim.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows[ownKey{unknown, key}].claim = id
}

// Lose has looking up claims fail for that reason; nil ends it.
func (k *memory) Lose(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = err
}

// Interrupt turns a request that was answered into one that was cut off before.
func (k *memory) Interrupt(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows[ownKey{unknown, key}].answer, k.rows[ownKey{unknown, key}].interrupted = nil, true
}

// Has reports whether the key stands for a request.
func (k *memory) Has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.rows[ownKey{unknown, key}]
	return ok
}

func (k *memory) Away() error { return nil }

func (k *memory) Over() <-chan struct{} { return nil }
