package server_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// fake is a broker that does what a test says. Who may go by which name, and what an error
// means, it knows itself; what a test has not said panics.
type fake struct {
	*broker.Broker
	claim   func(context.Context, broker.Request) (api.Claim, error)
	claims  []api.Claim
	lookup  func(context.Context, broker.Ref) (api.Claim, error)
	act     func(what string, r broker.Ref, with any) (api.Claim, error) // renew, keep, adopt, finish, connect
	left    atomic.Bool                                                  // what connected has left
	events  func(context.Context, api.EventFilter, time.Duration) ([]api.Event, int64, error)
	watch   func(r broker.Ref, after int64, wait time.Duration) (api.Claim, error)
	tasks   func(api.TaskFilter) (api.Tasks, error)
	sweep   func(ctx context.Context, note, by string) (api.Sweep, error)
	owing   func(what, by string) error // add, comment, offer, decline, reopen, send, mint, sync, adopt, renew, check
	status  func() (api.Status, error)
	pausing broker.Pausing // the last one
	swept   atomic.Int32
	claimed atomic.Int32
}

func newFake(t *testing.T) *fake {
	t.Helper()
	return &fake{
		Broker: broker.New(broker.Config{Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler)}),
		claim:  func(context.Context, broker.Request) (api.Claim, error) { return held(), nil },
		lookup: func(context.Context, broker.Ref) (api.Claim, error) { return held(), nil },
		act:    func(string, broker.Ref, any) (api.Claim, error) { return held(), nil },
		sweep:  func(context.Context, string, string) (api.Sweep, error) { return api.Sweep{Swept: []api.Swept{}}, nil },
		status: func() (api.Status, error) { return api.Status{}, nil },
		owing:  func(string, string) error { return nil },
	}
}

// only has the broker allow no other name.
func (f *fake) only(name string) { f.SetAgents([]broker.Agent{{Name: name}}) }

func (f *fake) Claim(ctx context.Context, r broker.Request) (api.Claim, error) {
	f.claimed.Add(1)
	return f.claim(ctx, r)
}

func (f *fake) Pause(_ context.Context, p broker.Pausing) (api.Paused, error) {
	f.pausing = p
	return api.Paused{Pauses: []api.Pause{}}, f.owing("pause", p.User)
}

func (f *fake) Resume(_ context.Context, p broker.Pausing) (api.Paused, error) {
	f.pausing = p
	return api.Paused{Pauses: []api.Pause{}}, f.owing("resume", p.User)
}

func (f *fake) Claims(string) api.Claims { return api.Claims{Claims: f.claims} }

func (f *fake) AddAttempts(context.Context, ...*api.Claim) {}

func (f *fake) Lookup(ctx context.Context, r broker.Ref) (api.Claim, error) { return f.lookup(ctx, r) }

func (f *fake) Renew(_ context.Context, r broker.Ref) (api.Claim, error) {
	return f.act("renew", r, nil)
}

func (f *fake) Keep(_ context.Context, r broker.Ref, k keepers.Keeper) (api.Claim, error) {
	return f.act("keep", r, k)
}

func (f *fake) Adopt(_ context.Context, r broker.Ref, k keepers.Keeper) (api.Claim, error) {
	return f.act("adopt", r, k)
}

func (f *fake) Spend(_ context.Context, id claim.ID, used claim.Usage) error {
	if used.None() {
		return nil
	}
	_, err := f.act("spend", broker.Ref{Claim: string(id)}, used)
	return err
}

func (f *fake) Finish(_ context.Context, r broker.Ref, as claim.Finish) (api.Claim, error) {
	return f.act("finish", r, as)
}

func (f *fake) Connect(_ context.Context, r broker.Ref, grace time.Duration) (api.Claim, func(), error) {
	c, err := f.act("connect", r, grace)
	return c, func() { f.left.Store(true) }, err
}

func (f *fake) Await() func() { return func() {} }

func (f *fake) Watch(_ context.Context, r broker.Ref, after int64, wait time.Duration) (api.Claim, error) {
	return f.watch(r, after, wait)
}

func (f *fake) Events(ctx context.Context, e api.EventFilter, wait time.Duration) ([]api.Event, int64, error) {
	return f.events(ctx, e, wait)
}

func (f *fake) Tasks(_ context.Context, filter api.TaskFilter) (api.Tasks, error) {
	return f.tasks(filter)
}

func (f *fake) Task(context.Context, task.ID) (api.Task, error) { return api.Task{}, nil }

func (f *fake) Log(context.Context, api.LogFilter) (api.Log, error) { return api.Log{}, nil }

func (f *fake) Sweep(ctx context.Context, note, by string) (api.Sweep, error) {
	f.swept.Add(1)
	return f.sweep(ctx, note, by)
}

func (f *fake) Status(context.Context) (api.Status, error) { return f.status() }

func (f *fake) Sync(context.Context, bool) (api.Sync, error) { return api.Sync{}, f.owing("sync", "") }

func (f *fake) Add(_ context.Context, a broker.Addition) (api.Added, error) {
	return api.Added{}, f.owing("add", a.By)
}

func (f *fake) Comment(_ context.Context, r broker.Remark) (api.Commented, error) {
	return api.Commented{}, f.owing("comment", r.By)
}

func (f *fake) Offer(context.Context, broker.Offer) (api.Offered, error) {
	return api.Offered{}, f.owing("offer", "")
}

func (f *fake) Decline(context.Context, string, task.ID, string) (api.Offered, error) {
	return api.Offered{}, f.owing("decline", "")
}

func (f *fake) ReopenFailed(_ context.Context, r broker.ReopeningFailed) (api.ReopenedTasks, error) {
	return api.ReopenedTasks{}, f.owing("reopen", r.By)
}

func (f *fake) Reopen(_ context.Context, r broker.Reopening) (api.Reopened, error) {
	return api.Reopened{}, f.owing("reopen", r.By)
}

func (f *fake) Send(_ context.Context, m broker.Message) (api.Message, error) {
	return api.Message{}, f.owing("send", m.By)
}

func (f *fake) Mint(_ context.Context, who broker.Caller, _ string) (api.Minted, error) {
	return api.Minted{}, f.owing("mint", signatureOf(who.UID))
}

func (f *fake) AdoptCluster(_ context.Context, by string) (api.Cluster, error) {
	return api.Cluster{}, f.owing("adopt", by)
}

func (f *fake) RenewWebhook(_ context.Context, by string) (api.Webhook, error) {
	return api.Webhook{}, f.owing("renew", by)
}

func (f *fake) CheckReserved(context.Context, string, string, []reserve.Target) (api.Checked, error) {
	return api.Checked{}, f.owing("check", "")
}
