package api

import "net/http"

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

	OpPause        = op[KeyedInput[*PauseRequest], Paused](Operation{Name: "pause", Meter: ByQuota, Method: http.MethodPost, Path: "/v1/pause", Summary: "Grant nothing for a while, to an agent or to anybody; what is held goes on"})
	OpResume       = op[KeyedInput[*ResumeRequest], Paused](Operation{Name: "resume", Meter: ByThing, Method: http.MethodPost, Path: "/v1/resume", Summary: "End a pause"})
	OpSweep        = op[KeyedInput[*SweepRequest], Sweep](Operation{Name: "sweep", Meter: ByNotion, Method: http.MethodPost, Path: "/v1/sweep", Summary: "Put tasks whose claim is stale back to OPEN, now"})
	OpSync         = op[KeyedInput[*SyncRequest], Sync](Operation{Name: "sync", Meter: ByNotion, Method: http.MethodPost, Path: "/v1/sync", Summary: "Bring the daemon's copy of the tasks up to date, now"})
	OpStatus       = op[struct{}, Status](Operation{Name: "status", Method: http.MethodGet, Path: "/v1/status", Summary: "The state of the daemon"})
	OpWebhook      = op[struct{}, Webhook](Operation{Name: "webhook", Method: http.MethodGet, Path: "/v1/webhook", Summary: "The address for Notion's webhooks, and the token to enter there"})
	OpRenewWebhook = op[BareInput, Webhook](Operation{Name: "renewWebhook", Meter: ByOwner, Method: http.MethodPost, Path: "/v1/webhook/renew", Summary: "Forget the token of the webhooks, so that Notion may send another"})
	OpCluster      = op[struct{}, Cluster](Operation{Name: "cluster", Method: http.MethodGet, Path: "/v1/cluster", Summary: "The daemons that work as one with this one"})
	OpAdoptCluster = op[BareInput, Cluster](Operation{Name: "adoptCluster", Meter: ByOwner, Method: http.MethodPost, Path: "/v1/cluster/adopt", Summary: "Take the database of the journal as it is now for the right one"})
)

// change is an operation on one claim.
func change[Body any](verb, summary string) Op[ClaimInput[Body], Claim] {
	return op[ClaimInput[Body], Claim](Operation{Name: verb, Meter: ByThing, Method: http.MethodPost, Path: "/v1/claims/{id}/" + verb, Owed: true, Summary: summary})
}
