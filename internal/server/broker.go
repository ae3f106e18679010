package server

import (
	"context"
	"errors"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/inbox"
	"dibs/internal/reserve"
	"dibs/internal/task"
)

// Broker is what the socket gives access to. All its times are Notion's, unless
// something else is said of them.
type Broker interface {
	// Claim fails with *claim.Denied, *broker.InvalidError or *broker.ForbiddenError.
	Claim(context.Context, broker.Request) (claim.Claim, error)

	// Renew fails with *claim.Lost, claim.ErrUnknownClaim, *broker.AmbiguousError,
	// *broker.OwedError or *claim.StoreError.
	Renew(context.Context, broker.Ref) (claim.Claim, error)

	// Keep has a process keep a claim alive. It fails as Renew does.
	Keep(context.Context, broker.Ref, alive.Keeper) (claim.Claim, error)

	// Adopt is Keep for a claim whose keepers are all gone; else it changes nothing.
	Adopt(context.Context, broker.Ref, alive.Keeper) (claim.Claim, error)

	// Connect has a connection keep a claim alive until leave is called, and for its
	// grace. It fails as Renew does.
	Connect(ctx context.Context, r broker.Ref, grace time.Duration) (c claim.Claim, leave func(), err error)

	// Finish fails as Renew does. A claim returned in state Finishing was
	// accepted and is owed to Notion.
	Finish(context.Context, broker.Ref, claim.Finish) (claim.Claim, error)

	// Claims returns the claims held here: those of agent, or all if it is empty.
	Claims(ctx context.Context, agent string) ([]claim.Claim, error)

	// Lookup returns a claim, also one that has ended.
	Lookup(context.Context, broker.Ref) (claim.Claim, error)

	Tasks(context.Context, api.TaskFilter) (broker.Listing, error)

	// Task fails with broker.ErrNoTask.
	Task(context.Context, task.ID) (broker.View, error)

	// Content fails with broker.ErrNoTask.
	Content(context.Context, task.ID) (broker.Content, error)

	// TaskByKey finds a task by what people call it. It fails with broker.ErrNoTask.
	TaskByKey(ctx context.Context, key string) (task.ID, error)

	// Reopen fails with *claim.Denied.
	Reopen(context.Context, broker.Reopening) (broker.Reopened, error)

	Sweep(ctx context.Context, note, by string) ([]api.Swept, error)

	// Sync fails with *claim.StoreError.
	Sync(ctx context.Context, full bool) (api.Sync, error)

	Status(context.Context) (api.Status, error)

	Cluster(context.Context) (api.Cluster, error)

	// AdoptCluster fails with *broker.InvalidError.
	AdoptCluster(ctx context.Context, by string) (api.Cluster, error)

	Log(context.Context, api.LogFilter) ([]claim.Event, error)

	// Events returns the next events, after waiting for one if there are none. It
	// fails with broker.ErrStopping.
	Events(ctx context.Context, f api.EventFilter, wait time.Duration) (broker.Page, error)

	// Watch returns a claim once it has ended or there is an event about it after
	// that one, or once the wait is over. It fails as Lookup does, and with
	// broker.ErrStopping.
	Watch(ctx context.Context, r broker.Ref, after int64, wait time.Duration) (claim.Claim, *feed.Event, error)

	// Poll takes the triggers of an agent, after waiting for one if there are none. It
	// fails with broker.ErrStopping.
	Poll(context.Context, broker.Poll) ([]inbox.Trigger, error)

	// TriggerAgents returns whose triggers these are; unknown ids are left out.
	TriggerAgents(ctx context.Context, ids []string) (map[string]string, error)

	// Ack acknowledges triggers of an agent, and returns those that it has none of.
	Ack(ctx context.Context, agent string, ids []string) (unknown []string, err error)

	// Send fails with *broker.InvalidError.
	Send(context.Context, broker.Message) (broker.Message, error)

	// Offer fails as Claim and Finish do. A claim returned in state Finishing was
	// accepted and is owed to Notion.
	Offer(context.Context, broker.Offer) (c claim.Claim, until time.Time, err error)

	// Decline fails as Claim and Finish do.
	Decline(ctx context.Context, agent string, id task.ID, reason string) (claim.Claim, error)

	// Reserve fails as Lookup does, and with *reserve.Taken, *reserve.Full or
	// *reserve.InvalidError.
	Reserve(ctx context.Context, r reserve.Request, of broker.Ref) (reserve.Reservation, error)

	// Unreserve fails with *reserve.UnknownError or *reserve.OthersError.
	Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error)

	// Reservation fails with *reserve.UnknownError.
	Reservation(ctx context.Context, id string) (reserve.Reservation, error)

	Reservations(ctx context.Context, agent string) []reserve.Reservation
	ComparedReservations(ctx context.Context, agent, member string) []reserve.Reservation

	// CheckReserved fails with *reserve.Taken or *reserve.InvalidError.
	CheckReserved(ctx context.Context, agent, member string, targets []reserve.Target) error

	// Add makes a task. It fails with *broker.InvalidError, *task.DraftError,
	// broker.ErrNoTask, creation.ErrReused or *claim.StoreError.
	Add(context.Context, broker.Addition) (broker.View, error)

	// Comment fails with *broker.InvalidError, broker.ErrNoTask or *claim.StoreError.
	Comment(context.Context, broker.Remark) (broker.Said, error)

	// Local turns Notion's time into this machine's.
	Local(time.Time) time.Time

	// Mint returns the name of a user's session, a new one if it has none or session is
	// empty. It fails with *broker.ForbiddenError.
	Mint(ctx context.Context, who broker.Caller, session string) (name string, minted bool, err error)

	// Identify says how an agent stands, and whether the user may go by its name. It
	// fails with *broker.InvalidError.
	Identify(ctx context.Context, agent string, who broker.Caller) (broker.Identity, error)
	// IdentifySession says so of the agent whose name a session has.
	IdentifySession(ctx context.Context, session string, who broker.Caller) (broker.Identity, error)

	// History returns what happened in the last hours, in at most that many steps.
	History(ctx context.Context, hours, points int) (broker.History, error)

	// Agents returns the agents seen in the last days, the one last seen first.
	Agents(ctx context.Context, days int) ([]broker.Doing, error)

	// Authorize reports, as *broker.ForbiddenError or *broker.InvalidError, that
	// the caller may not act as agent.
	Authorize(agent string, who broker.Caller) error
}

// Keys is the durable memory of idempotency keys.
type Keys interface {
	// BeginRequest begins a request. The first to begin it gets nil and owns the
	// key until it calls FinishRequest or DropRequest; after it finished, others
	// get its answer. It fails with ErrKeyReused if the key belongs to a request
	// with another fingerprint, and with ErrInterrupted if the one who began the
	// request never got to its end.
	BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*Answer, error)

	// FinishRequest stores the answer.
	FinishRequest(ctx context.Context, uid int, key string, a Answer) error

	// DropRequest forgets the request, so that it can be made anew.
	DropRequest(ctx context.Context, uid int, key string) error

	// RequestClaim returns the claim made for the request, and false if there is none.
	RequestClaim(ctx context.Context, uid int, key string) (claim.ID, bool, error)
}

// Answer is what a request was answered.
type Answer struct {
	Status int
	Body   []byte
}

// Errors of Keys.
var (
	ErrKeyReused   = errors.New("the idempotency key was used for another request: use a new one")
	ErrInterrupted = errors.New("the request with this idempotency key was cut off")
)
