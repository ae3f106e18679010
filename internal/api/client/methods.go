package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
)

// A request that is made again under the same key gets the same answer. Every
// key here may be empty.

// Claim asks for a claim.
func (c *Client) Claim(ctx context.Context, body api.ClaimRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, request{method: http.MethodPost, path: "/v1/claims", key: key, body: body})
}

// Renew begins the lease of a claim anew. id, here and below, is the id of the
// claim or of its task, or api.OnlyClaim.
func (c *Client) Renew(ctx context.Context, id string, body api.RenewRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "renew", body, key))
}

// Complete says that the work is done. Here and below, a claim in state
// finishing was accepted and is owed to Notion.
func (c *Client) Complete(ctx context.Context, id string, body api.CompleteRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "complete", body, key))
}

// Review says that the work is done, for a person to decide.
func (c *Client) Review(ctx context.Context, id string, body api.ReviewRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "review", body, key))
}

// Release gives the task back.
func (c *Client) Release(ctx context.Context, id string, body api.StopRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "release", body, key))
}

// Block says that the work cannot go on.
func (c *Client) Block(ctx context.Context, id string, body api.BlockRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "block", body, key))
}

// Fail says that the work was tried and failed.
func (c *Client) Fail(ctx context.Context, id string, body api.FailRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "fail", body, key))
}

func change(id, verb string, body any, key string) request {
	return request{method: http.MethodPost, path: "/v1/claims/" + url.PathEscape(id) + "/" + verb, key: key, body: body}
}

// Claims returns the claims held here: those of agent, or all if it is empty.
func (c *Client) Claims(ctx context.Context, agent string) (api.Claims, error) {
	q := make(query)
	q.add("agent", agent)
	return ask[api.Claims](ctx, c, get("/v1/claims", q))
}

// Lookup returns a claim, also one that has ended. If agent is not empty, it
// must be the claim's, and counts as told if the claim was lost.
func (c *Client) Lookup(ctx context.Context, id, agent string) (api.Claim, error) {
	q := make(query)
	q.add("agent", agent)
	return ask[api.Claim](ctx, c, get("/v1/claims/"+url.PathEscape(id), q))
}

// Watch is Lookup once the claim has ended or something happened to it after that
// event (api.EventsFuture: from now on), and at the latest when the wait is over.
// The answer says what happened.
func (c *Client) Watch(ctx context.Context, id, agent string, after int64, wait time.Duration) (api.Claim, error) {
	q := make(query)
	q.add("agent", agent)
	q.add("after", strconv.FormatInt(after, 10))
	q.add("wait", wait.String())
	return ask[api.Claim](ctx, c, get("/v1/claims/"+url.PathEscape(id), q))
}

// Tasks returns tasks as the daemon's copy of the database has them.
func (c *Client) Tasks(ctx context.Context, f api.TaskFilter) (api.Tasks, error) {
	q := make(query)
	q.add("status", string(f.Status))
	if f.Ready {
		q.add("ready", "true")
	}
	if f.Why {
		q.add("why", "true")
	}
	q.add("agent", f.Agent)
	q.add("priority", f.Priority)
	q.add("text", f.Text)
	for _, condition := range f.Where {
		url.Values(q).Add("where", condition)
	}
	q.addLimit(f.Limit)
	return ask[api.Tasks](ctx, c, get("/v1/tasks", q))
}

// Task returns a task, named by its id or key, as the daemon's copy of the database has it.
func (c *Client) Task(ctx context.Context, id task.ID) (api.Task, error) {
	return ask[api.Task](ctx, c, get("/v1/tasks/"+url.PathEscape(string(id)), nil))
}

// Content returns a task, named by its id or key, with what its page says and what was said
// of it, read from Notion within some ten seconds. That a page cannot be read is in the
// answer, and no error.
func (c *Client) Content(ctx context.Context, id task.ID) (api.TaskContent, error) {
	return ask[api.TaskContent](ctx, c, get("/v1/tasks/"+url.PathEscape(string(id))+"/content", nil))
}

// Reopen puts a task back to OPEN that is blocked, failed, in review or finished.
func (c *Client) Reopen(ctx context.Context, id task.ID, body api.ReopenRequest, key string) (api.Reopened, error) {
	return ask[api.Reopened](ctx, c, post("/v1/tasks/"+url.PathEscape(string(id))+"/reopen", body, key))
}

// Sweep puts tasks whose claim is stale back to OPEN.
func (c *Client) Sweep(ctx context.Context, key string) (api.Sweep, error) {
	return c.SweepFor(ctx, api.SweepRequest{}, key)
}

// SweepFor is Sweep with a note for the record.
func (c *Client) SweepFor(ctx context.Context, body api.SweepRequest, key string) (api.Sweep, error) {
	if body == (api.SweepRequest{}) {
		return ask[api.Sweep](ctx, c, request{method: http.MethodPost, path: "/v1/sweep", key: key})
	}
	return ask[api.Sweep](ctx, c, post("/v1/sweep", body, key))
}

// Sync brings the daemon's copy of the tasks up to date.
func (c *Client) Sync(ctx context.Context, body api.SyncRequest, key string) (api.Sync, error) {
	return ask[api.Sync](ctx, c, request{method: http.MethodPost, path: "/v1/sync", key: key, body: body})
}

// Status returns the state of the daemon.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return ask[api.Status](ctx, c, get("/v1/status", nil))
}

// Cluster returns the members of the cluster; none if there is no cluster.
func (c *Client) Cluster(ctx context.Context) (api.Cluster, error) {
	return ask[api.Cluster](ctx, c, get("/v1/cluster", nil))
}

// AdoptCluster has the daemon take the database of its journal as it is for the right one.
func (c *Client) AdoptCluster(ctx context.Context, key string) (api.Cluster, error) {
	return ask[api.Cluster](ctx, c, request{method: http.MethodPost, path: "/v1/cluster/adopt", key: key})
}

// Log returns entries of the local record, the oldest first.
func (c *Client) Log(ctx context.Context, f api.LogFilter) (api.Log, error) {
	q := make(query)
	q.add("agent", f.Agent)
	q.add("task", string(f.Task))
	q.add("claim", string(f.Claim))
	q.add("after", f.After)
	q.addLimit(f.Limit)
	return ask[api.Log](ctx, c, get("/v1/log", q))
}

// query is the query of an address; what is empty is left out.
type query url.Values

func (q query) add(name, value string) {
	if value != "" {
		url.Values(q).Set(name, value)
	}
}

func (q query) addLimit(limit int) { q.addNumber("limit", limit) }

func (q query) addNumber(name string, n int) {
	if n != 0 {
		q.add(name, strconv.Itoa(n))
	}
}

func get(path string, q query) request {
	if len(q) > 0 {
		path += "?" + url.Values(q).Encode()
	}
	return request{method: http.MethodGet, path: path}
}
