package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"dibs/internal/task"
)

// Operation is an operation of the API, without the types of an Op. The table of operations
// determines the routes, their description, the client's requests, and what happens to a repeated
// request.
type Operation struct {
	Name, Method, Path, Summary string
	// Status is the answer's HTTP status; zero means 200.
	Status int
	// Found describes an answer of 200 instead of Status; empty if there is none.
	Found string
	// Owed says that an answer may be 202: accepted, and owed to Notion.
	Owed bool
	// Repeat says what a request gets that is repeated under its idempotency key.
	Repeat Repeat
	// Meter says what keeps one user's requests from filling the disk, or Notion's time; empty if
	// the operation writes nothing.
	Meter Meter
	// Large allows a request with the content of a page.
	Large bool
	// Changes marks the one GET that changes something.
	Changes bool
	// Local keeps callers of other machines out, whatever their access token.
	Local bool
	// Sends describes a streamed answer of Outs; empty for any other answer.
	Sends string

	body, out reflect.Type // body is nil if a request has none
}

// Repeat says what a request gets that is repeated under its idempotency key.
type Repeat int

const (
	// Same: the first answer, or the present state of what the first request made.
	Same Repeat = iota
	// Made: Same, if something was made. A refused request made nothing, and its cause, such as an
	// unknown dependency, may pass.
	Made
	// Anew: the request is carried out again, and recognises by the key what it did before.
	Anew
)

// Meter is what bounds the requests of one user for an operation that writes.
type Meter string

const (
	// ByQuota: each request leaves work for Notion, or data on the disk, so each user has a quota
	// of them all.
	ByQuota Meter = "quota"
	// ByNotion: each request that stores something waits for Notion's answers. Refusals that do not
	// are counted in one entry.
	ByNotion Meter = "notion"
	// ByThing: a request changes or ends one thing that is there, such as a claim or a trigger, and
	// what made that is bounded. A task that is blocked, asked about or failed has to be reopened
	// before it is claimed again.
	ByThing Meter = "thing"
	// ByStore: the place where it is kept has a limit for each user: reservations, minted names, and
	// agents that poll, of whom a new one counts with the quota.
	ByStore Meter = "store"
	// ByOwner: only the daemon's user and root may ask.
	ByOwner Meter = "owner"
)

// Pattern returns the operation's pattern for http.ServeMux.
func (o *Operation) Pattern() string { return o.Method + " " + o.Path }

// Op is an operation with input In and answer Out. The fields of In are the parts of a request:
// Body is its body, Key its idempotency key; the others' tags say whether they are in the path or
// the query.
type Op[In, Out any] struct{ *Operation }

// table lists all operations.
var table []*Operation

// op adds an operation to the table.
func op[In, Out any](o Operation) Op[In, Out] {
	o.out = reflect.TypeFor[Out]()
	if in, ok := reflect.TypeFor[In]().FieldByName("Body"); ok {
		o.body = in.Type
	}
	table = append(table, &o)
	return Op[In, Out]{&o}
}

// Operations returns the table of operations.
func Operations() []*Operation { return slices.Clone(table) }

// routes maps requests to operations.
var routes = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, o := range table {
		mux.Handle(o.Pattern(), route{o})
	}
	return mux
})

// route stands for an operation's handler.
type route struct{ *Operation }

func (route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// OperationOf returns the operation of a request; an empty one if there is none.
func OperationOf(r *http.Request) *Operation {
	h, _ := routes().Handler(r)
	if found, ok := h.(route); ok {
		return found.Operation
	}
	return &Operation{}
}

// Outcome is an answer whose content determines its status.
type Outcome interface {
	// StatusOf returns the status of the answer to that operation; zero for the usual one.
	StatusOf(*Operation) int
}

// StatusOf is 202 for a pending change.
func (o Owed) StatusOf(op *Operation) int {
	if o.Pending && op.Owed {
		return http.StatusAccepted
	}
	return 0
}

// StatusOf is 202 for a comment that is not on the page yet.
func (c Commented) StatusOf(*Operation) int {
	if c.Owed {
		return http.StatusAccepted
	}
	return 0
}

// StatusOf distinguishes a new name from the session's old one.
func (m Minted) StatusOf(*Operation) int {
	if !m.Minted {
		return http.StatusOK
	}
	return 0
}

// On makes the input of an operation on a claim. id is the id of the claim or of its task, or
// OnlyClaim.
func On[Body any](id, key string, body Body) ClaimInput[Body] {
	return ClaimInput[Body]{ID: id, Key: key, Body: &body}
}

// Keyed makes the input of an operation on no existing thing.
func Keyed[Body any](key string, body Body) KeyedInput[Body] {
	return KeyedInput[Body]{Key: key, Body: body}
}

// SweepOf makes the input of OpSweep. Without a note, it has no body.
func SweepOf(key string, body SweepRequest) KeyedInput[*SweepRequest] {
	if body == (SweepRequest{}) {
		return KeyedInput[*SweepRequest]{Key: key}
	}
	return Keyed(key, &body)
}

// OnTask makes the input of an operation on a task.
func OnTask[Body any](id task.ID, key string, body Body) TaskInput[Body] {
	return TaskInput[Body]{ID: string(id), Key: key, Body: body}
}

// Fit returns the body of a request as the operation wants it, see Fit.
func (o *Operation) Fit(body []byte) []byte { return Fit(body, o.body) }

// Canonical returns the body of a request, which fits, as this program would send it: bodies that
// mean the same are the same then, however their fields are ordered and their names are written.
// A body that the operation will refuse is returned unchanged.
func (o *Operation) Canonical(body []byte) []byte {
	if o.body == nil {
		return body
	}
	read := reflect.New(o.body)
	if decode(body, read.Interface()) != nil {
		return body
	}
	FormC(read)
	canonical, err := json.Marshal(read.Interface())
	if err != nil {
		return body // impossible: it was read
	}
	return canonical
}

// Answer returns the type of the answer.
func (o *Operation) Answer() reflect.Type { return o.out }

// The operations of the API. To add one, add a row here with its types, its work in package broker,
// and the connection of both in package server.
var (
	OpClaim      = op[KeyedInput[ClaimRequest], Claim](Operation{Name: "claim", Meter: ByNotion, Method: http.MethodPost, Path: "/v1/claims", Status: http.StatusCreated, Summary: "Claim a task, or the next ready one"})
	OpListClaims = op[AgentFilter, Claims](Operation{Name: "list-claims", Method: http.MethodGet, Path: "/v1/claims", Summary: "The claims held here"})
	OpGetClaim   = op[GetClaimInput, Claim](Operation{Name: "get-claim", Method: http.MethodGet, Path: "/v1/claims/{id}", Summary: "A claim, also one that has ended"})
	OpKeepAlive  = op[KeepAliveInput, Claim](Operation{
		Name: "keep-alive", Meter: ByThing, Method: http.MethodGet, Path: "/v1/claims/{id}/alive", Summary: "Keep a claim alive for as long as the connection is open",
		Changes: true, Sends: "A stream of server-sent events: claim, with the claim as it is, at first and whenever something happens to it; it ends with the claim",
	})

	OpRenew    = change[RenewRequest]("renew", "Say that you are still at work: keep the claim")
	OpComplete = change[CompleteRequest]("complete", "Say that the work is done")
	OpReview   = change[ReviewRequest]("review", "Say that the work is done, for a person to decide")
	OpRelease  = change[StopRequest]("release", "Give a task back")
	OpBlock    = change[BlockRequest]("block", "Say that the work cannot go on")
	OpFail     = change[FailRequest]("fail", "Say that the work was tried and failed")
	OpAsk      = change[AskRequest]("ask", "Ask people something, and give the task up until they answer")

	OpListTasks      = op[ListTasksInput, Tasks](Operation{Name: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks", Summary: "Tasks, as the daemon's copy of the database has them"})
	OpGetTask        = op[GetTaskInput, Task](Operation{Name: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{id}", Summary: "A task, as the daemon's copy of the database has it"})
	OpGetTaskContent = op[GetTaskInput, TaskContent](Operation{Name: "get-task-content", Method: http.MethodGet, Path: "/v1/tasks/{id}/content", Summary: "A task with what its page says, read from Notion"})
	OpAddTask        = op[AddInput, Added](Operation{
		Name: "add-task", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/tasks", Status: http.StatusCreated, Repeat: Made, Large: true,
		Summary: "Make a task; a request that comes again under its key never makes a second one",
	})
	OpComment = op[TaskInput[CommentRequest], Commented](Operation{
		Name: "comment", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/tasks/{id}/comments", Status: http.StatusCreated, Owed: true,
		Summary: "Put a comment on a task's page, signed by the agent or the caller's user",
	})
	OpOffer   = op[TaskInput[OfferRequest], Offered](Operation{Name: "offer", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/tasks/{id}/offer", Owed: true, Summary: "Hand a task that is held or open to another agent"})
	OpAccept  = op[TaskInput[AcceptRequest], Claim](Operation{Name: "accept", Meter: ByNotion, Method: http.MethodPost, Path: "/v1/tasks/{id}/accept", Status: http.StatusCreated, Summary: "Claim a task that is offered to the agent"})
	OpDecline = op[TaskInput[DeclineRequest], Offered](Operation{Name: "decline", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/tasks/{id}/decline", Owed: true, Summary: "Give back a task that is offered to the agent"})
	OpReopen  = op[ReopenInput, Reopened](Operation{
		Name: "reopen", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/tasks/{id}/reopen",
		Summary: "Put a task back to OPEN that is blocked, failed or in review, or in the status that was seen; or block, complete or cancel one that no agent has",
	})
	OpReopenFailed = op[KeyedInput[ReopenFailedRequest], ReopenedTasks](Operation{
		Name: "reopen-failed", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/reopen",
		Summary: "Put the tasks back to OPEN that an agent failed, but for those that somebody edited or commented on since",
	})

	OpPoll = op[PollInput, Triggers](Operation{
		Name: "poll", Meter: ByStore, Method: http.MethodPost, Path: "/v1/agents/{name}/poll", Repeat: Anew,
		Summary: "Take an agent's triggers: each is handed out once, and comes back if it is not acknowledged",
	})
	OpAck    = op[AckInput, Acked](Operation{Name: "ack", Meter: ByThing, Method: http.MethodPost, Path: "/v1/agents/{name}/ack", Summary: "Say that an agent is done with triggers"})
	OpAckAny = op[KeyedInput[AckRequest], Acked](Operation{Name: "ack-any", Meter: ByThing, Method: http.MethodPost, Path: "/v1/ack", Summary: "Acknowledge triggers, whichever agents they are for"})
	OpSend   = op[KeyedInput[MessageRequest], Message](Operation{Name: "send", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/messages", Status: http.StatusCreated, Summary: "Say something to an agent, or to all"})

	OpMint       = op[MintInput, Minted](Operation{Name: "mint", Meter: ByStore, Method: http.MethodPost, Path: "/v1/agents", Status: http.StatusCreated, Found: "The name that the session has already", Summary: "A name for an agent that has none: always the same for one session"})
	OpGetAgent   = op[GetAgentInput, Agent](Operation{Name: "get-agent", Method: http.MethodGet, Path: "/v1/agents/{name}", Summary: "How an agent stands, and whether the caller may go by its name; nothing is taken from its inbox"})
	OpListAgents = op[ListAgentsInput, Agents](Operation{Name: "list-agents", Method: http.MethodGet, Path: "/v1/agents", Summary: "The agents seen lately, with what they hold and how they do; Notion is not asked"})

	OpReserve      = op[KeyedInput[ReserveRequest], Reserved](Operation{Name: "reserve", Meter: ByStore, Method: http.MethodPost, Path: "/v1/reservations", Status: http.StatusCreated, Summary: "Reserve files, by pattern, and other things, by name: all of them or none"})
	OpReservations = op[ListReservationsInput, Reservations](Operation{Name: "reservations", Method: http.MethodGet, Path: "/v1/reservations", Summary: "List what is reserved beside tasks"})
	OpUnreserve    = op[UnreserveInput, Reserved](Operation{Name: "unreserve", Meter: ByThing, Method: http.MethodDelete, Path: "/v1/reservations/{id}", Summary: "End a reservation"})
	OpCheck        = op[CheckInput, Checked](Operation{Name: "check", Method: http.MethodPost, Path: "/v1/reservations/check", Summary: "Ask whether an agent may touch files, or others have reserved them"})

	OpEvents = op[EventsInput, Event](Operation{
		Name: "events", Method: http.MethodGet, Path: "/v1/events", Summary: "What happens to tasks and claims, as server-sent events",
		Sends: "A stream of events: id, event (the kind) and data (the event, in one line)",
	})
	OpLog    = op[LogInput, Log](Operation{Name: "log", Method: http.MethodGet, Path: "/v1/log", Summary: "The newest entries of the local record"})
	OpStory  = op[StoryInput, Story](Operation{Name: "story", Method: http.MethodGet, Path: "/v1/story/{id}", Summary: "What happened to a task, or to one claim, in sentences, oldest first"})
	OpReport = op[ReportInput, Report](Operation{Name: "report", Method: http.MethodGet, Path: "/v1/report", Summary: "How agents did in the last days, and what waits for people; Notion is asked for names at most"})

	OpPause        = op[KeyedInput[*PauseRequest], Paused](Operation{Name: "pause", Local: true, Meter: ByQuota, Method: http.MethodPost, Path: "/v1/pause", Summary: "Grant nothing for a while, to an agent or to anybody; what is held goes on"})
	OpResume       = op[KeyedInput[*ResumeRequest], Paused](Operation{Name: "resume", Local: true, Meter: ByThing, Method: http.MethodPost, Path: "/v1/resume", Summary: "End a pause"})
	OpSweep        = op[KeyedInput[*SweepRequest], Sweep](Operation{Name: "sweep", Local: true, Meter: ByNotion, Method: http.MethodPost, Path: "/v1/sweep", Summary: "Put tasks whose claim is stale back to OPEN, now"})
	OpSync         = op[KeyedInput[*SyncRequest], Sync](Operation{Name: "sync", Local: true, Meter: ByNotion, Method: http.MethodPost, Path: "/v1/sync", Summary: "Bring the daemon's copy of the tasks up to date, now"})
	OpStatus       = op[struct{}, Status](Operation{Name: "status", Method: http.MethodGet, Path: "/v1/status", Summary: "The state of the daemon"})
	OpWebhook      = op[struct{}, Webhook](Operation{Name: "webhook", Local: true, Method: http.MethodGet, Path: "/v1/webhook", Summary: "The address for Notion's webhooks, and the token to enter there"})
	OpRenewWebhook = op[BareInput, Webhook](Operation{Name: "renewWebhook", Local: true, Meter: ByOwner, Method: http.MethodPost, Path: "/v1/webhook/renew", Summary: "Forget the token of the webhooks, so that Notion may send another"})
	OpCluster      = op[struct{}, Cluster](Operation{Name: "cluster", Local: true, Method: http.MethodGet, Path: "/v1/cluster", Summary: "The daemons that work as one with this one"})
	OpAccess       = op[struct{}, Access](Operation{Name: "access", Method: http.MethodGet, Path: "/v1/access", Summary: "What the caller's access token allows; only callers of other machines have one"})
	OpNewToken     = op[KeyedInput[TokenRequest], NewToken](Operation{Name: "new-token", Local: true, Meter: ByOwner, Method: http.MethodPost, Path: "/v1/tokens", Status: http.StatusCreated, Repeat: Anew, Summary: "Make an access token for an agent on another machine"})
	OpTokens       = op[struct{}, Tokens](Operation{Name: "tokens", Local: true, Method: http.MethodGet, Path: "/v1/tokens", Summary: "The access tokens, without their secrets"})
	OpRevokeToken  = op[TokenInput, Token](Operation{Name: "revoke-token", Local: true, Meter: ByOwner, Method: http.MethodDelete, Path: "/v1/tokens/{id}", Summary: "Make an access token invalid, and end what is open under it"})
	OpAdoptCluster = op[BareInput, Cluster](Operation{Name: "adoptCluster", Local: true, Meter: ByOwner, Method: http.MethodPost, Path: "/v1/cluster/adopt", Summary: "Take the journal as it is now for the right one"})
)

// change is an operation on one claim.
func change[Body any](verb, summary string) Op[ClaimInput[Body], Claim] {
	return op[ClaimInput[Body], Claim](Operation{Name: verb, Meter: ByThing, Method: http.MethodPost, Path: "/v1/claims/{id}/" + verb, Owed: true, Summary: summary})
}
