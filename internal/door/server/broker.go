package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/task"
)

// Broker answers the operations of the API, each by a method of one shape, see serve. The rest is what
// the door itself asks. Its times are this machine's.
type Broker interface {
	// Authorize returns a *broker.ForbiddenError or *broker.InvalidError if the caller may not act
	// as agent.
	Authorize(agent string, who broker.Caller) error
	AuthorizeSigner(name string, who broker.Caller) error
	// TaskByKey finds a task by its key. It fails with broker.ErrNoTask.
	TaskByKey(ctx context.Context, key string) (task.ID, error)
	// Lookup returns a claim, even one that has ended. It fails with claim.ErrUnknownClaim,
	// *broker.AmbiguousError or *claim.Lost.
	Lookup(ctx context.Context, id, agent string) (api.Claim, error)
	// Claims returns the claims held here: the agent's, or all if agent is empty.
	Claims(agent string) api.Claims
	// Spend notes what was used for a claim so far. It fails with claim.ErrUnknownClaim.
	Spend(context.Context, claim.ID, claim.Usage) error
	// Problem converts an error of the broker; it returns nil for an unknown one.
	Problem(error) *api.Problem

	// Events returns the next events, and waits if there are none. next is the id to continue
	// after. It fails with broker.ErrStopping.
	Events(ctx context.Context, in api.EventsInput, wait time.Duration) (events []api.Event, next int64, err error)
	// Watch returns a claim when it ends, when there is an event of it, or when the wait is over. It
	// fails as Lookup does, and with broker.ErrStopping.
	Watch(context.Context, *api.GetClaimInput) (api.Claim, error)
	// KeepAlive keeps a claim alive for a connection until leave is called, and for the grace period
	// after that. If the renewal is pending, it keeps nothing alive and leave is nil.
	KeepAlive(context.Context, broker.Caller, *api.KeepAliveInput) (c api.Claim, leave func(), err error)

	Claim(context.Context, broker.Caller, *api.KeyedInput[api.ClaimRequest]) (api.Claim, error)
	ListClaims(context.Context, broker.Caller, *api.AgentFilter) (api.Claims, error)
	GetClaim(context.Context, broker.Caller, *api.GetClaimInput) (api.Claim, error)
	Renew(context.Context, broker.Caller, *api.ClaimInput[api.RenewRequest]) (api.Claim, error)
	Complete(context.Context, broker.Caller, *api.ClaimInput[api.CompleteRequest]) (api.Claim, error)
	Review(context.Context, broker.Caller, *api.ClaimInput[api.ReviewRequest]) (api.Claim, error)
	Release(context.Context, broker.Caller, *api.ClaimInput[api.StopRequest]) (api.Claim, error)
	Block(context.Context, broker.Caller, *api.ClaimInput[api.BlockRequest]) (api.Claim, error)
	Fail(context.Context, broker.Caller, *api.ClaimInput[api.FailRequest]) (api.Claim, error)
	Ask(context.Context, broker.Caller, *api.ClaimInput[api.AskRequest]) (api.Claim, error)

	ListTasks(context.Context, broker.Caller, *api.ListTasksInput) (api.Tasks, error)
	GetTask(context.Context, broker.Caller, *api.GetTaskInput) (api.Task, error)
	GetTaskContent(context.Context, broker.Caller, *api.GetTaskInput) (api.TaskContent, error)
	AddTask(context.Context, broker.Caller, *api.AddInput) (api.Added, error)
	Comment(context.Context, broker.Caller, *api.TaskInput[api.CommentRequest]) (api.Commented, error)
	Offer(context.Context, broker.Caller, *api.TaskInput[api.OfferRequest]) (api.Offered, error)
	Accept(context.Context, broker.Caller, *api.TaskInput[api.AcceptRequest]) (api.Claim, error)
	Decline(context.Context, broker.Caller, *api.TaskInput[api.DeclineRequest]) (api.Offered, error)
	Reopen(context.Context, broker.Caller, *api.ReopenInput) (api.Reopened, error)
	ReopenFailed(context.Context, broker.Caller, *api.KeyedInput[api.ReopenFailedRequest]) (api.ReopenedTasks, error)

	Poll(context.Context, broker.Caller, *api.PollInput) (api.Triggers, error)
	Ack(context.Context, broker.Caller, *api.AckInput) (api.Acked, error)
	AckAny(context.Context, broker.Caller, *api.KeyedInput[api.AckRequest]) (api.Acked, error)
	Send(context.Context, broker.Caller, *api.KeyedInput[api.MessageRequest]) (api.Message, error)
	Mint(context.Context, broker.Caller, *api.MintInput) (api.Minted, error)
	GetAgent(context.Context, broker.Caller, *api.GetAgentInput) (api.Agent, error)
	ListAgents(context.Context, broker.Caller, *api.ListAgentsInput) (api.Agents, error)

	Reserve(context.Context, broker.Caller, *api.KeyedInput[api.ReserveRequest]) (api.Reserved, error)
	Reservations(context.Context, broker.Caller, *api.ListReservationsInput) (api.Reservations, error)
	Unreserve(context.Context, broker.Caller, *api.UnreserveInput) (api.Reserved, error)
	Check(context.Context, broker.Caller, *api.CheckInput) (api.Checked, error)

	Log(context.Context, broker.Caller, *api.LogInput) (api.Log, error)
	Story(context.Context, broker.Caller, *api.StoryInput) (api.Story, error)
	Report(context.Context, broker.Caller, *api.ReportInput) (api.Report, error)
	Pause(context.Context, broker.Caller, *api.KeyedInput[*api.PauseRequest]) (api.Paused, error)
	Resume(context.Context, broker.Caller, *api.KeyedInput[*api.ResumeRequest]) (api.Paused, error)
	Sweep(context.Context, broker.Caller, *api.KeyedInput[*api.SweepRequest]) (api.Sweep, error)
	Sync(context.Context, broker.Caller, *api.KeyedInput[*api.SyncRequest]) (api.Sync, error)
	Status(context.Context, broker.Caller, *struct{}) (api.Status, error)
	Webhook(context.Context, broker.Caller, *struct{}) (api.Webhook, error)
	RenewWebhook(context.Context, broker.Caller, *api.BareInput) (api.Webhook, error)
	Cluster(context.Context, broker.Caller, *struct{}) (api.Cluster, error)
	AdoptCluster(context.Context, broker.Caller, *api.BareInput) (api.Cluster, error)
	Access(context.Context, broker.Caller, *struct{}) (api.Access, error)
	NewToken(context.Context, broker.Caller, *api.KeyedInput[api.TokenRequest]) (api.NewToken, error)
	Tokens(context.Context, broker.Caller, *struct{}) (api.Tokens, error)
	RevokeToken(context.Context, broker.Caller, *api.TokenInput) (api.Token, error)
}

// Journal stores the answers to requests with idempotency keys.
type Journal interface {
	// Away returns why the journal cannot be reached; nil if it can.
	Away() error

	// Over returns a channel that is closed when another daemon leads, so that nothing is stored
	// here any more: the caller's door then asks that daemon. It is nil if that never happens.
	Over() <-chan struct{}

	// BeginRequest begins a request. The first caller gets nil and owns the key until it calls
	// FinishRequest or DropRequest; after FinishRequest, others get its answer. It fails with
	// outbox.ErrReused if the key belongs to a request with another fingerprint, and with
	// outbox.ErrUnanswered if an earlier owner was interrupted before it finished.
	BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*outbox.Answer, error)

	// FinishRequest stores the answer.
	FinishRequest(ctx context.Context, uid int, key string, a outbox.Answer) error

	// DropRequest forgets the request, so that it can be made again.
	DropRequest(ctx context.Context, uid int, key string) error

	// RequestMade returns the id of the claim or task made for the request; empty for none.
	RequestMade(ctx context.Context, uid int, key string) (string, error)
}
