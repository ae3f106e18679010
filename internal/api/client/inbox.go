package client

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Poll takes an agent's triggers.
func (c *Client) Poll(ctx context.Context, agent string, body api.PollRequest, key string) (api.Triggers, error) {
	return do(ctx, c, api.OpPoll, api.PollInput{Name: agent, Key: key, Body: &body})
}

// Ack acknowledges triggers of an agent, or, if agent is empty, of any agents.
func (c *Client) Ack(ctx context.Context, agent string, body api.AckRequest, key string) (api.Acked, error) {
	if agent == "" {
		return do(ctx, c, api.OpAckAny, api.KeyedInput[api.AckRequest]{Key: key, Body: body})
	}
	return do(ctx, c, api.OpAck, api.AckInput{Name: agent, Key: key, Body: body})
}

// Send sends a message to an agent, or to all.
func (c *Client) Send(ctx context.Context, body api.MessageRequest, key string) (api.Message, error) {
	return do(ctx, c, api.OpSend, api.KeyedInput[api.MessageRequest]{Key: key, Body: body})
}

// Offer hands a task to another agent.
func (c *Client) Offer(ctx context.Context, id task.ID, body api.OfferRequest, key string) (api.Offered, error) {
	return do(ctx, c, api.OpOffer, api.OnTask(id, key, body))
}

// Accept claims a task that is offered to the agent.
func (c *Client) Accept(ctx context.Context, id task.ID, body api.AcceptRequest, key string) (api.Claim, error) {
	return do(ctx, c, api.OpAccept, api.OnTask(id, key, body))
}

// Decline refuses a task that is offered to the agent.
func (c *Client) Decline(ctx context.Context, id task.ID, body api.DeclineRequest, key string) (api.Offered, error) {
	return do(ctx, c, api.OpDecline, api.OnTask(id, key, body))
}
