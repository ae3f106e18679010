package client

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Add creates a task. If the outcome is unknown, the same request under the same key finds out.
func (c *Client) Add(ctx context.Context, body api.AddRequest, key string) (api.Added, error) {
	return do(ctx, c, api.OpAddTask, api.AddInput{Key: key, Body: body})
}

// Comment puts a comment on a task's page.
func (c *Client) Comment(ctx context.Context, id task.ID, body api.CommentRequest, key string) (api.Commented, error) {
	return do(ctx, c, api.OpComment, api.OnTask(id, key, body))
}

// Ask asks people a question, and ends the claim until they answer.
func (c *Client) Ask(ctx context.Context, id string, body api.AskRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpAsk, api.On(id, key, body))
}
