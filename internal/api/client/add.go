package client

import (
	"context"
	"net/url"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Add makes a task. If it cannot be said whether that was done, the same request under
// the same key finds out.
func (c *Client) Add(ctx context.Context, body api.AddRequest, key string) (api.Added, error) {
	return ask[api.Added](ctx, c, post("/v1/tasks", body, key))
}

// Comment puts a comment on a task's page.
func (c *Client) Comment(ctx context.Context, id task.ID, body api.CommentRequest, key string) (api.Commented, error) {
	return ask[api.Commented](ctx, c, post("/v1/tasks/"+url.PathEscape(string(id))+"/comments", body, key))
}

// Ask asks people something, and gives the claim up until they answer.
func (c *Client) Ask(ctx context.Context, id string, body api.AskRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, change(id, "ask", body, key))
}
