package client

import (
	"context"
	"net/http"
	"net/url"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Poll takes an agent's triggers.
func (c *Client) Poll(ctx context.Context, agent string, body api.PollRequest, key string) (api.Triggers, error) {
	return ask[api.Triggers](ctx, c, post("/v1/agents/"+url.PathEscape(agent)+"/poll", body, key))
}

// Ack says that an agent, or if that is empty whoever's they are, is done with triggers.
func (c *Client) Ack(ctx context.Context, agent string, body api.AckRequest, key string) (api.Acked, error) {
	path := "/v1/ack"
	if agent != "" {
		path = "/v1/agents/" + url.PathEscape(agent) + "/ack"
	}
	return ask[api.Acked](ctx, c, post(path, body, key))
}

// Send says something to an agent, or to all.
func (c *Client) Send(ctx context.Context, body api.MessageRequest, key string) (api.Message, error) {
	return ask[api.Message](ctx, c, post("/v1/messages", body, key))
}

// Offer hands a task to another agent.
func (c *Client) Offer(ctx context.Context, id task.ID, body api.OfferRequest, key string) (api.Offered, error) {
	return ask[api.Offered](ctx, c, post("/v1/tasks/"+url.PathEscape(string(id))+"/offer", body, key))
}

// Accept claims a task that is offered to the agent.
func (c *Client) Accept(ctx context.Context, id task.ID, body api.AcceptRequest, key string) (api.Claim, error) {
	return ask[api.Claim](ctx, c, post("/v1/tasks/"+url.PathEscape(string(id))+"/accept", body, key))
}

// Decline gives back a task that is offered to the agent.
func (c *Client) Decline(ctx context.Context, id task.ID, body api.DeclineRequest, key string) (api.Offered, error) {
	return ask[api.Offered](ctx, c, post("/v1/tasks/"+url.PathEscape(string(id))+"/decline", body, key))
}

func post(path string, body any, key string) request {
	return request{method: http.MethodPost, path: path, key: key, body: body}
}
