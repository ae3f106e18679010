// Package servertest holds what tests of the socket and of its callers need: a
// strict broker, a memory for idempotency keys, and connections without sockets.
package servertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/inbox"
	"dibs/internal/reserve"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Call is a call of the broker that a test expects, and what it returns.
type Call struct {
	Method string
	Args   []any
	// Result is what the method returns beside Err; nil is its zero value.
	Result any
	Err    error
	// During, if set, runs while the call lasts. Its error takes Err's place.
	During func(context.Context) error
}

// Broker is a broker that answers the calls it was told to expect, in their
// order, and fails the test for any other, and for those that never came.
type Broker struct {
	// Skew is Notion's time minus this machine's.
	Skew time.Duration
	// Answers, if set, answers whatever comes, in the place of the calls expected.
	Answers func(method string, args []any) (result any, err error)

	t        testing.TB
	mu       sync.Mutex
	expected []Call
}

// NewBroker returns a broker that expects no calls yet.
func NewBroker(t testing.TB) *Broker {
	b := &Broker{t: t}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.expected {
			t.Errorf("the broker was not called: %s%v", c.Method, c.Args)
		}
	})
	return b
}

// Expect adds calls to those expected.
func (b *Broker) Expect(calls ...Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, calls...)
}

var errUnexpected = errors.New("servertest: the test expects no such call")

// answer checks a call against the next one expected.
func answer[T any](ctx context.Context, b *Broker, method string, args ...any) (T, error) {
	b.t.Helper()
	var result T
	if b.Answers != nil {
		some, err := b.Answers(method, args)
		result, _ = some.(T)
		return result, err
	}
	b.mu.Lock()
	if len(b.expected) == 0 {
		b.mu.Unlock()
		b.t.Errorf("unexpected call of the broker: %s%v", method, args)
		return result, errUnexpected
	}
	next := b.expected[0]
	b.expected = slices.Delete(b.expected, 0, 1)
	b.mu.Unlock()

	if diff := cmp.Diff(append([]any{next.Method}, next.Args...), append([]any{method}, args...)); diff != "" {
		b.t.Errorf("call of the broker (-want +got):\n%s", diff)
		return result, errUnexpected
	}
	if next.Result != nil {
		result = next.Result.(T)
	}
	if next.During != nil {
		if err := next.During(ctx); err != nil {
			return result, err
		}
	}
	return result, next.Err
}

func (b *Broker) Claim(ctx context.Context, r broker.Request) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Claim", r)
}

func (b *Broker) Renew(ctx context.Context, r broker.Ref) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Renew", r)
}

func (b *Broker) Keep(ctx context.Context, r broker.Ref, k alive.Keeper) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Keep", r, k)
}

func (b *Broker) Adopt(ctx context.Context, r broker.Ref, k alive.Keeper) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Adopt", r, k)
}

func (b *Broker) Connect(ctx context.Context, r broker.Ref, grace time.Duration) (claim.Claim, func(), error) {
	c, err := answer[claim.Claim](ctx, b, "Connect", r, grace)
	return c, func() { _, _ = answer[claim.Claim](context.Background(), b, "leave", c.ID) }, err
}

func (b *Broker) Finish(ctx context.Context, r broker.Ref, f claim.Finish) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Finish", r, f)
}

func (b *Broker) Claims(ctx context.Context, agent string) ([]claim.Claim, error) {
	return answer[[]claim.Claim](ctx, b, "Claims", agent)
}

func (b *Broker) Lookup(ctx context.Context, r broker.Ref) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Lookup", r)
}

func (b *Broker) Tasks(ctx context.Context, f api.TaskFilter) (broker.Listing, error) {
	return answer[broker.Listing](ctx, b, "Tasks", f)
}

func (b *Broker) Task(ctx context.Context, id task.ID) (broker.View, error) {
	return answer[broker.View](ctx, b, "Task", id)
}

func (b *Broker) Content(ctx context.Context, id task.ID) (broker.Content, error) {
	return answer[broker.Content](ctx, b, "Content", id)
}

func (b *Broker) TaskByKey(ctx context.Context, key string) (task.ID, error) {
	return answer[task.ID](ctx, b, "TaskByKey", key)
}

func (b *Broker) Reopen(ctx context.Context, r broker.Reopening) (broker.Reopened, error) {
	return answer[broker.Reopened](ctx, b, "Reopen", r)
}

func (b *Broker) Sweep(ctx context.Context, note, by string) ([]api.Swept, error) {
	if note == "" && by == task.UserSignature("unknown") {
		return answer[[]api.Swept](ctx, b, "Sweep") // as nearly all are
	}
	return answer[[]api.Swept](ctx, b, "Sweep", note, by)
}

func (b *Broker) Sync(ctx context.Context, full bool) (api.Sync, error) {
	return answer[api.Sync](ctx, b, "Sync", full)
}

func (b *Broker) Status(ctx context.Context) (api.Status, error) {
	return answer[api.Status](ctx, b, "Status")
}

func (b *Broker) Cluster(ctx context.Context) (api.Cluster, error) {
	return answer[api.Cluster](ctx, b, "Cluster")
}

func (b *Broker) AdoptCluster(ctx context.Context, by string) (api.Cluster, error) {
	return answer[api.Cluster](ctx, b, "AdoptCluster", by)
}

func (b *Broker) Log(ctx context.Context, f api.LogFilter) ([]claim.Event, error) {
	return answer[[]claim.Event](ctx, b, "Log", f)
}

func (b *Broker) Events(ctx context.Context, f api.EventFilter, wait time.Duration) (broker.Page, error) {
	return answer[broker.Page](ctx, b, "Events", f, wait)
}

// Watched is the result of Watch.
type Watched struct {
	Claim claim.Claim
	Event *feed.Event
}

func (b *Broker) Watch(ctx context.Context, r broker.Ref, after int64, wait time.Duration) (claim.Claim, *feed.Event, error) {
	w, err := answer[Watched](ctx, b, "Watch", r, after, wait)
	return w.Claim, w.Event, err
}

func (b *Broker) Poll(ctx context.Context, p broker.Poll) ([]inbox.Trigger, error) {
	p.New = nil // functions cannot be compared
	return answer[[]inbox.Trigger](ctx, b, "Poll", p)
}

func (b *Broker) TriggerAgents(ctx context.Context, ids []string) (map[string]string, error) {
	return answer[map[string]string](ctx, b, "TriggerAgents", ids)
}

func (b *Broker) Ack(ctx context.Context, agent string, ids []string) ([]string, error) {
	return answer[[]string](ctx, b, "Ack", agent, ids)
}

func (b *Broker) Send(ctx context.Context, m broker.Message) (broker.Message, error) {
	m.Tell = nil // functions cannot be compared
	return answer[broker.Message](ctx, b, "Send", m)
}

// Offered is the result of Offer.
type Offered struct {
	Claim claim.Claim
	Until time.Time
}

func (b *Broker) Offer(ctx context.Context, o broker.Offer) (claim.Claim, time.Time, error) {
	out, err := answer[Offered](ctx, b, "Offer", o)
	return out.Claim, out.Until, err
}

func (b *Broker) Decline(ctx context.Context, agent string, id task.ID, reason string) (claim.Claim, error) {
	return answer[claim.Claim](ctx, b, "Decline", agent, id, reason)
}

// Minted is the result of Mint.
type Minted struct {
	Name string
	New  bool
}

func (b *Broker) Mint(ctx context.Context, who broker.Caller, session string) (string, bool, error) {
	m, err := answer[Minted](ctx, b, "Mint", who, session)
	return m.Name, m.New, err
}

func (b *Broker) Identify(ctx context.Context, agent string, who broker.Caller) (broker.Identity, error) {
	return answer[broker.Identity](ctx, b, "Identify", agent, who)
}

// IdentifySession implements server.Broker.
func (b *Broker) IdentifySession(ctx context.Context, session string, who broker.Caller) (broker.Identity, error) {
	return answer[broker.Identity](ctx, b, "IdentifySession", session, who)
}

func (b *Broker) History(ctx context.Context, hours, points int) (broker.History, error) {
	return answer[broker.History](ctx, b, "History", hours, points)
}

func (b *Broker) Agents(ctx context.Context, days int) ([]broker.Doing, error) {
	return answer[[]broker.Doing](ctx, b, "Agents", days)
}

func (b *Broker) Reserve(ctx context.Context, r reserve.Request, of broker.Ref) (reserve.Reservation, error) {
	return answer[reserve.Reservation](ctx, b, "Reserve", r, of)
}

func (b *Broker) Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error) {
	return answer[reserve.Reservation](ctx, b, "Unreserve", id, agent)
}

func (b *Broker) Reservation(ctx context.Context, id string) (reserve.Reservation, error) {
	return answer[reserve.Reservation](ctx, b, "Reservation", id)
}

func (b *Broker) Reservations(ctx context.Context, agent string) []reserve.Reservation {
	list, _ := answer[[]reserve.Reservation](ctx, b, "Reservations", agent)
	return list
}

func (b *Broker) ComparedReservations(ctx context.Context, agent, member string) []reserve.Reservation {
	list, _ := answer[[]reserve.Reservation](ctx, b, "ComparedReservations", agent, member)
	return list
}

func (b *Broker) CheckReserved(ctx context.Context, agent, member string, targets []reserve.Target) error {
	_, err := answer[any](ctx, b, "CheckReserved", agent, member, targets)
	return err
}

func (b *Broker) Add(ctx context.Context, a broker.Addition) (broker.View, error) {
	return answer[broker.View](ctx, b, "Add", a)
}

func (b *Broker) Comment(ctx context.Context, r broker.Remark) (broker.Said, error) {
	return answer[broker.Said](ctx, b, "Comment", r)
}

func (b *Broker) Authorize(agent string, who broker.Caller) error {
	_, err := answer[any](context.Background(), b, "Authorize", agent, who)
	return err
}

// Local turns Notion's time into this machine's. It may be called at any time.
func (b *Broker) Local(t time.Time) time.Time { return t.Add(-b.Skew) }
