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
	"dibs/internal/testkit"
)

// fake is a broker that does what a test says. Who may go by which name, and what an error
// means, it knows itself; what a test has not said panics.
type fake struct {
	*broker.Broker
	real    bool // the broker itself is asked for claims, events and the record: it refuses before it looks
	claim   func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error)
	claims  []api.Claim
	lookup  func(id, agent string) (api.Claim, error)
	act     func(what, id string, with any) (api.Claim, error) // renew, finish, connect, spend
	left    atomic.Bool                                        // what connected has left
	events  func(context.Context, api.EventFilter, time.Duration) ([]api.Event, int64, error)
	watch   func(api.GetClaimInput) (api.Claim, error)
	tasks   func(api.ListTasksInput) (api.Tasks, error)
	sweep   func(context.Context, broker.Caller) (api.Sweep, error)
	owing   func(what string, who broker.Caller) error // all else that is done
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
		owing:  func(string, broker.Caller) error { return nil },
	}
}

// only has the broker allow no other name.
func (f *fake) only(name string) { f.SetAgents([]broker.Agent{{Name: name}}) }

func (f *fake) Claim(ctx context.Context, who broker.Caller, in *api.KeyedInput[api.ClaimRequest]) (api.Claim, error) {
	if f.claimed.Add(1); f.real {
		return f.Broker.Claim(ctx, who, in)
	}
	return f.claim(ctx, who, in.Body)
}

func (f *fake) Claims(string) api.Claims { return api.Claims{Claims: f.claims} }

func (f *fake) ListClaims(context.Context, broker.Caller, *api.AgentFilter) (api.Claims, error) {
	return api.Claims{Claims: f.claims}, nil
}

func (f *fake) Lookup(_ context.Context, id, agent string) (api.Claim, error) {
	return f.lookup(id, agent)
}

func (f *fake) GetClaim(ctx context.Context, who broker.Caller, in *api.GetClaimInput) (api.Claim, error) {
	switch {
	case f.real:
		return f.Broker.GetClaim(ctx, who, in)
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

func (f *fake) Complete(_ context.Context, _ broker.Caller, in *api.ClaimInput[api.CompleteRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}

func (f *fake) Review(_ context.Context, _ broker.Caller, in *api.ClaimInput[api.ReviewRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}

func (f *fake) Release(_ context.Context, _ broker.Caller, in *api.ClaimInput[api.StopRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}

func (f *fake) Block(_ context.Context, _ broker.Caller, in *api.ClaimInput[api.BlockRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}

func (f *fake) Fail(_ context.Context, _ broker.Caller, in *api.ClaimInput[api.FailRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}

func (f *fake) Ask(_ context.Context, _ broker.Caller, in *api.ClaimInput[api.AskRequest]) (api.Claim, error) {
	return f.act("finish", in.ID, *in.Body)
}

func (f *fake) KeepAlive(ctx context.Context, who broker.Caller, in *api.KeepAliveInput) (api.Claim, func(), error) {
	if f.real {
		return f.Broker.KeepAlive(ctx, who, in)
	}
	c, err := f.act("connect", in.ID, in.Grace)
	return c, func() { f.left.Store(true) }, err
}

func (f *fake) Watch(_ context.Context, in *api.GetClaimInput) (api.Claim, error) {
	return f.watch(*in)
}

func (f *fake) Events(ctx context.Context, e api.EventFilter, wait time.Duration) ([]api.Event, int64, error) {
	return f.events(ctx, e, wait)
}

func (f *fake) ListTasks(_ context.Context, _ broker.Caller, in *api.ListTasksInput) (api.Tasks, error) {
	return f.tasks(*in)
}

func (f *fake) GetTask(context.Context, broker.Caller, *api.GetTaskInput) (api.Task, error) {
	return api.Task{}, nil
}

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

func (f *fake) Status(context.Context, broker.Caller, *struct{}) (api.Status, error) {
	return f.status()
}

func (f *fake) Sync(_ context.Context, who broker.Caller, _ *api.KeyedInput[*api.SyncRequest]) (api.Sync, error) {
	return api.Sync{}, f.owing("Sync", who)
}

func (f *fake) AddTask(_ context.Context, who broker.Caller, _ *api.AddInput) (api.Added, error) {
	return api.Added{}, f.owing("AddTask", who)
}

func (f *fake) Comment(_ context.Context, who broker.Caller, _ *api.TaskInput[api.CommentRequest]) (api.Commented, error) {
	return api.Commented{}, f.owing("Comment", who)
}

func (f *fake) Offer(_ context.Context, who broker.Caller, _ *api.TaskInput[api.OfferRequest]) (api.Offered, error) {
	return api.Offered{}, f.owing("Offer", who)
}

func (f *fake) Decline(_ context.Context, who broker.Caller, _ *api.TaskInput[api.DeclineRequest]) (api.Offered, error) {
	return api.Offered{}, f.owing("Decline", who)
}

func (f *fake) Reopen(_ context.Context, who broker.Caller, _ *api.ReopenInput) (api.Reopened, error) {
	return api.Reopened{}, f.owing("Reopen", who)
}

func (f *fake) ReopenFailed(_ context.Context, who broker.Caller, _ *api.KeyedInput[api.ReopenFailedRequest]) (api.ReopenedTasks, error) {
	return api.ReopenedTasks{}, f.owing("ReopenFailed", who)
}

func (f *fake) Poll(_ context.Context, who broker.Caller, _ *api.PollInput) (api.Triggers, error) {
	return api.Triggers{}, f.owing("Poll", who)
}

func (f *fake) Send(_ context.Context, who broker.Caller, _ *api.KeyedInput[api.MessageRequest]) (api.Message, error) {
	return api.Message{}, f.owing("Send", who)
}

func (f *fake) Mint(_ context.Context, who broker.Caller, _ *api.MintInput) (api.Minted, error) {
	return api.Minted{}, f.owing("Mint", who)
}

func (f *fake) Check(_ context.Context, who broker.Caller, _ *api.CheckInput) (api.Checked, error) {
	return api.Checked{}, f.owing("Check", who)
}

func (f *fake) Reservations(_ context.Context, who broker.Caller, _ *api.ListReservationsInput) (api.Reservations, error) {
	return api.Reservations{}, f.owing("Reservations", who)
}

func (f *fake) Pause(_ context.Context, who broker.Caller, _ *api.KeyedInput[*api.PauseRequest]) (api.Paused, error) {
	return api.Paused{}, f.owing("Pause", who)
}

func (f *fake) Resume(_ context.Context, who broker.Caller, _ *api.KeyedInput[*api.ResumeRequest]) (api.Paused, error) {
	return api.Paused{}, f.owing("Resume", who)
}

func (f *fake) AdoptCluster(_ context.Context, who broker.Caller, _ *api.BareInput) (api.Cluster, error) {
	return api.Cluster{}, f.owing("AdoptCluster", who)
}

func (f *fake) RenewWebhook(_ context.Context, who broker.Caller, _ *api.BareInput) (api.Webhook, error) {
	return api.Webhook{}, f.owing("RenewWebhook", who)
}
