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
	return do(ctx, c, api.OpClaim, api.KeyedInput[api.ClaimRequest]{Key: key, Body: body})
}

// Renew restarts the lease of a claim. id, here and below, is the id of the claim or of its task,
// or api.OnlyClaim.
func (c *Client) Renew(ctx context.Context, id string, body api.RenewRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpRenew, api.On(id, key, body))
}

// Complete says that the work is done. Here and below, a claim in state finishing was accepted and
// is owed to Notion.
func (c *Client) Complete(ctx context.Context, id string, body api.CompleteRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpComplete, api.On(id, key, body))
}

// Review says that the work is done, for a person to decide.
func (c *Client) Review(ctx context.Context, id string, body api.ReviewRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpReview, api.On(id, key, body))
}

// Release gives the task back.
func (c *Client) Release(ctx context.Context, id string, body api.StopRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpRelease, api.On(id, key, body))
}

// Block says that the work cannot go on.
func (c *Client) Block(ctx context.Context, id string, body api.BlockRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpBlock, api.On(id, key, body))
}

// Fail says that the work was tried and failed.
func (c *Client) Fail(ctx context.Context, id string, body api.FailRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpFail, api.On(id, key, body))
}

// Claims returns the claims held here: the agent's, or all if agent is empty.
func (c *Client) Claims(ctx context.Context, agent string) (api.Claims, error) {
	return do(ctx, c, api.OpListClaims, api.AgentFilter{Agent: agent})
}

// Lookup returns a claim, even one that has ended. If agent is not empty, it must be the claim's,
// and if the claim was taken from it, the answer counts as notice of the loss.
func (c *Client) Lookup(ctx context.Context, id, agent string) (api.Claim, error) {
	return do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: agent, After: api.EventsFuture})
}

// Watch waits until the claim ends, has an event after that one (api.EventsFuture: from now on), or
// the wait is over. It then is Lookup, with the event in the answer.
func (c *Client) Watch(ctx context.Context, id, agent string, after int64, wait time.Duration) (api.Claim, error) {
	return do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: agent, After: after, Wait: wait.String()})
}

// WatchAtWork is Watch from now on, for an agent that works meanwhile: it does not make the daemon
// ask Notion more often.
func (c *Client) WatchAtWork(ctx context.Context, id, agent string, wait time.Duration) (api.Claim, error) {
	return do(ctx, c, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: agent, After: api.EventsFuture, Wait: wait.String(), Patient: true})
}

// Tasks returns tasks from the daemon's mirror.
func (c *Client) Tasks(ctx context.Context, f api.TaskFilter) (api.Tasks, error) {
	return do(ctx, c, api.OpListTasks, api.ListTasksInput{
		Status: f.Status, Ready: f.Ready, Why: f.Why, Agent: f.Agent, Limit: f.Limit, Priority: f.Priority, Where: f.Where, Text: f.Text,
	})
}

// Task returns a task, named by its id or key, from the daemon's mirror.
func (c *Client) Task(ctx context.Context, id task.ID) (api.Task, error) {
	return do(ctx, c, api.OpGetTask, api.GetTaskInput{ID: string(id)})
}

// Content returns a task, named by its id or key, with its page and comments, read from Notion
// within some ten seconds. If the page cannot be read, the answer says so; that is not an error.
func (c *Client) Content(ctx context.Context, id task.ID) (api.TaskContent, error) {
	return do(ctx, c, api.OpGetTaskContent, api.GetTaskInput{ID: string(id)})
}

// Reopen sets a task that is blocked, failed, in review or finished back to OPEN, or gives it the
// status that body names.
func (c *Client) Reopen(ctx context.Context, id task.ID, body api.ReopenRequest, key string) (api.Reopened, error) {
	return do(ctx, c, api.OpReopen, api.ReopenInput{ID: string(id), Key: key, Body: &body})
}

// ReopenFailed sets the tasks back to OPEN that an agent failed and nobody touched since.
func (c *Client) ReopenFailed(ctx context.Context, body api.ReopenFailedRequest, key string) (api.ReopenedTasks, error) {
	return do(ctx, c, api.OpReopenFailed, api.KeyedInput[api.ReopenFailedRequest]{Key: key, Body: body})
}

// Pause has nothing granted for a while.
func (c *Client) Pause(ctx context.Context, body api.PauseRequest, key string) (api.Paused, error) {
	return do(ctx, c, api.OpPause, api.KeyedInput[*api.PauseRequest]{Key: key, Body: &body})
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, body api.ResumeRequest, key string) (api.Paused, error) {
	return do(ctx, c, api.OpResume, api.KeyedInput[*api.ResumeRequest]{Key: key, Body: &body})
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
	return do(ctx, c, api.OpSweep, in)
}

// Sync brings the daemon's mirror up to date.
func (c *Client) Sync(ctx context.Context, body api.SyncRequest, key string) (api.Sync, error) {
	return do(ctx, c, api.OpSync, api.KeyedInput[*api.SyncRequest]{Key: key, Body: &body})
}

// Status returns the state of the daemon.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return do(ctx, c, api.OpStatus, struct{}{})
}

// Cluster returns the members of the cluster; without a cluster, none.
func (c *Client) Cluster(ctx context.Context) (api.Cluster, error) {
	return do(ctx, c, api.OpCluster, struct{}{})
}

// AdoptCluster makes the daemon accept the database of its journal as it is now.
func (c *Client) AdoptCluster(ctx context.Context, key string) (api.Cluster, error) {
	return do(ctx, c, api.OpAdoptCluster, api.BareInput{Key: key})
}

// Webhook returns the address for Notion's webhooks, with its secret.
func (c *Client) Webhook(ctx context.Context) (api.Webhook, error) {
	return do(ctx, c, api.OpWebhook, struct{}{})
}

// RenewWebhook makes the daemon forget that secret, so that Notion may send another.
func (c *Client) RenewWebhook(ctx context.Context, key string) (api.Webhook, error) {
	return do(ctx, c, api.OpRenewWebhook, api.BareInput{Key: key})
}

// Log returns entries of the local record, oldest first.
func (c *Client) Log(ctx context.Context, f api.LogFilter) (api.Log, error) {
	in := api.LogInput{Agent: f.Agent, Task: string(f.Task), Claim: string(f.Claim), After: f.After, Seen: f.Seen, Limit: f.Limit}
	if !f.Since.IsZero() {
		in.Since = f.Since.Format(time.RFC3339)
	}
	return do(ctx, c, api.OpLog, in)
}
