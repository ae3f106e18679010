package client

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
)

// A request repeated under the same key gets the same answer. Every key here may be empty.

// Claim asks for a claim.
func (c *Client) Claim(ctx context.Context, body api.ClaimRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpClaim, api.KeyedInput[api.ClaimRequest]{Key: key, Body: body})
}

// Renew restarts the lease of a claim. id, here and below, is the id of the claim or of its task,
// or api.OnlyClaim.
func (c *Client) Renew(ctx context.Context, id string, body api.RenewRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpRenew, api.On(id, key, body))
}

// Complete says that the work is done. Here and below, a claim in state finishing was accepted and
// is owed to Notion.
func (c *Client) Complete(ctx context.Context, id string, body api.CompleteRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpComplete, api.On(id, key, body))
}

// Review says that the work is done, for a person to decide.
func (c *Client) Review(ctx context.Context, id string, body api.ReviewRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpReview, api.On(id, key, body))
}

// Release gives the task back.
func (c *Client) Release(ctx context.Context, id string, body api.StopRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpRelease, api.On(id, key, body))
}

// Block says that the work cannot go on.
func (c *Client) Block(ctx context.Context, id string, body api.BlockRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpBlock, api.On(id, key, body))
}

// Fail says that the work was tried and failed.
func (c *Client) Fail(ctx context.Context, id string, body api.FailRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpFail, api.On(id, key, body))
}

// Claims returns the claims held here: the agent's, or all if agent is empty.
func (c *Client) Claims(ctx context.Context, agent string) (api.Claims, error) {
	return Do(ctx, c, api.OpListClaims, api.AgentFilter{Agent: agent})
}

// Lookup returns a claim, even one that has ended. If agent is not empty, it must be the claim's,
// and if the claim was taken from it, the answer counts as notice of the loss.
func (c *Client) Lookup(ctx context.Context, id, agent string) (api.Claim, error) {
	return Do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: agent, After: api.EventsFuture})
}

// Watch waits until the claim ends, has an event after that one (api.EventsFuture: from now on), or
// the wait is over. It then is Lookup, with the event in the answer.
func (c *Client) Watch(ctx context.Context, id, agent string, after int64, wait time.Duration) (api.Claim, error) {
	return Do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: agent, After: after, Wait: wait.String()})
}

// WatchAtWork is Watch from now on, for an agent that works meanwhile: it does not make the daemon
// ask Notion more often.
func (c *Client) WatchAtWork(ctx context.Context, id, agent string, wait time.Duration) (api.Claim, error) {
	return Do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: agent, After: api.EventsFuture, Wait: wait.String(), Patient: true})
}

// Tasks returns tasks from the daemon's mirror.
func (c *Client) Tasks(ctx context.Context, f api.TaskFilter) (api.Tasks, error) {
	return Do(ctx, c, api.OpListTasks, f.Input())
}

// Task returns a task, named by its id or key, from the daemon's mirror.
func (c *Client) Task(ctx context.Context, id task.ID) (api.Task, error) {
	return Do(ctx, c, api.OpGetTask, api.GetTaskInput{ID: string(id)})
}

// Content returns a task, named by its id or key, with its page and comments, read from Notion
// within some ten seconds. If the page cannot be read, the answer says so; that is not an error.
func (c *Client) Content(ctx context.Context, id task.ID) (api.TaskContent, error) {
	return Do(ctx, c, api.OpGetTaskContent, api.GetTaskInput{ID: string(id)})
}

// Reopen sets a task that is blocked, failed, in review or finished back to OPEN, or gives it the
// status that body names.
func (c *Client) Reopen(ctx context.Context, id task.ID, body api.ReopenRequest, key string) (api.Reopened, error) {
	return Do(ctx, c, api.OpReopen, api.ReopenInput{ID: string(id), Key: key, Body: &body})
}

// ReopenFailed sets the tasks back to OPEN that an agent failed and nobody touched since.
func (c *Client) ReopenFailed(ctx context.Context, body api.ReopenFailedRequest, key string) (api.ReopenedTasks, error) {
	return Do(ctx, c, api.OpReopenFailed, api.KeyedInput[api.ReopenFailedRequest]{Key: key, Body: body})
}

// Pause has nothing granted for a while.
func (c *Client) Pause(ctx context.Context, body api.PauseRequest, key string) (api.Paused, error) {
	return Do(ctx, c, api.OpPause, api.KeyedInput[*api.PauseRequest]{Key: key, Body: &body})
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, body api.ResumeRequest, key string) (api.Paused, error) {
	return Do(ctx, c, api.OpResume, api.KeyedInput[*api.ResumeRequest]{Key: key, Body: &body})
}

// Sweep sets tasks with a stale claim back to OPEN.
func (c *Client) Sweep(ctx context.Context, key string) (api.Sweep, error) {
	return c.SweepFor(ctx, api.SweepRequest{}, key)
}

// SweepFor is Sweep with a note for the record.
func (c *Client) SweepFor(ctx context.Context, body api.SweepRequest, key string) (api.Sweep, error) {
	in := api.KeyedInput[*api.SweepRequest]{Key: key}
	if body != (api.SweepRequest{}) {
		in.Body = &body
	}
	return Do(ctx, c, api.OpSweep, in)
}

// Sync brings the daemon's mirror up to date.
func (c *Client) Sync(ctx context.Context, body api.SyncRequest, key string) (api.Sync, error) {
	return Do(ctx, c, api.OpSync, api.KeyedInput[*api.SyncRequest]{Key: key, Body: &body})
}

// Status returns the state of the daemon.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return Do(ctx, c, api.OpStatus, struct{}{})
}

// Cluster returns the members of the cluster; without a cluster, none.
func (c *Client) Cluster(ctx context.Context) (api.Cluster, error) {
	return Do(ctx, c, api.OpCluster, struct{}{})
}

// AdoptCluster makes the daemon accept the database of its journal as it is now.
func (c *Client) AdoptCluster(ctx context.Context, key string) (api.Cluster, error) {
	return Do(ctx, c, api.OpAdoptCluster, api.BareInput{Key: key})
}

// Webhook returns the address for Notion's webhooks, with its secret.
func (c *Client) Webhook(ctx context.Context) (api.Webhook, error) {
	return Do(ctx, c, api.OpWebhook, struct{}{})
}

// RenewWebhook makes the daemon forget that secret, so that Notion may send another.
func (c *Client) RenewWebhook(ctx context.Context, key string) (api.Webhook, error) {
	return Do(ctx, c, api.OpRenewWebhook, api.BareInput{Key: key})
}

// Log returns entries of the local record, oldest first.
func (c *Client) Log(ctx context.Context, f api.LogFilter) (api.Log, error) {
	in := api.LogInput{Agent: f.Agent, Task: string(f.Task), Claim: string(f.Claim), After: f.After, Seen: f.Seen, Limit: f.Limit}
	if !f.Since.IsZero() {
		in.Since = f.Since.Format(time.RFC3339)
	}
	return Do(ctx, c, api.OpLog, in)
}

// Add creates a task. If the outcome is unknown, the same request under the same key finds out.
func (c *Client) Add(ctx context.Context, body api.AddRequest, key string) (api.Added, error) {
	return Do(ctx, c, api.OpAddTask, api.AddInput{Key: key, Body: body})
}

// Comment puts a comment on a task's page.
func (c *Client) Comment(ctx context.Context, id task.ID, body api.CommentRequest, key string) (api.Commented, error) {
	return Do(ctx, c, api.OpComment, api.OnTask(id, key, body))
}

// Ask asks people a question, and ends the claim until they answer.
func (c *Client) Ask(ctx context.Context, id string, body api.AskRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpAsk, api.On(id, key, body))
}

// Agents returns the agents seen in the last days, 1 to 30; 0 means seven.
func (c *Client) Agents(ctx context.Context, days int) (api.Agents, error) {
	return Do(ctx, c, api.OpListAgents, api.ListAgentsInput{Days: days})
}

// Story returns what happened to a claim, by its id, or to a task, by its id or key.
func (c *Client) Story(ctx context.Context, id string) (api.Story, error) {
	return Do(ctx, c, api.OpStory, api.StoryInput{ID: id})
}

// Report returns how agents did in the last days, 1 to 366, and what waits for people; 0 means
// seven.
func (c *Client) Report(ctx context.Context, days int) (api.Report, error) {
	return Do(ctx, c, api.OpReport, api.ReportInput{Days: days})
}

// Poll takes an agent's triggers.
func (c *Client) Poll(ctx context.Context, agent string, body api.PollRequest, key string) (api.Triggers, error) {
	return Do(ctx, c, api.OpPoll, api.PollInput{Name: agent, Key: key, Body: &body})
}

// Send sends a message to an agent, or to all.
func (c *Client) Send(ctx context.Context, body api.MessageRequest, key string) (api.Message, error) {
	return Do(ctx, c, api.OpSend, api.KeyedInput[api.MessageRequest]{Key: key, Body: body})
}

// Offer hands a task to another agent.
func (c *Client) Offer(ctx context.Context, id task.ID, body api.OfferRequest, key string) (api.Offered, error) {
	return Do(ctx, c, api.OpOffer, api.OnTask(id, key, body))
}

// Accept claims a task that is offered to the agent.
func (c *Client) Accept(ctx context.Context, id task.ID, body api.AcceptRequest, key string) (api.Claim, error) {
	return Do(ctx, c, api.OpAccept, api.OnTask(id, key, body))
}

// Decline refuses a task that is offered to the agent.
func (c *Client) Decline(ctx context.Context, id task.ID, body api.DeclineRequest, key string) (api.Offered, error) {
	return Do(ctx, c, api.OpDecline, api.OnTask(id, key, body))
}

// Mint returns the name of a session, or a new one if it has none or none is given.
func (c *Client) Mint(ctx context.Context, body api.MintRequest, key string) (api.Minted, error) {
	return Do(ctx, c, api.OpMint, api.MintInput{Key: key, Body: &body})
}

// Agent describes an agent, and says whether the caller may use its name.
func (c *Client) Agent(ctx context.Context, name string) (api.Agent, error) {
	return Do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: name})
}

// SessionAgent is Agent for the agent of a session, see Mint. It mints no name: if the session has
// none, the error is a problem of code not_found.
func (c *Client) SessionAgent(ctx context.Context, session string) (api.Agent, error) {
	return Do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: task.AutoAgent, Session: session})
}

// Reservations returns the reservations of an agent, or of all if empty.
func (c *Client) Reservations(ctx context.Context, agent string) (api.Reservations, error) {
	return Do(ctx, c, api.OpReservations, api.ListReservationsInput{Agent: agent})
}
