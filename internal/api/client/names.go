package client

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Mint returns the name of a session, or a new one if it has none or none is given.
func (c *Client) Mint(ctx context.Context, body api.MintRequest, key string) (api.Minted, error) {
	return do(ctx, c, api.OpMint, api.MintInput{Key: key, Body: &body})
}

// Agent describes an agent, and says whether the caller may use its name.
func (c *Client) Agent(ctx context.Context, name string) (api.Agent, error) {
	return do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: name})
}

// SessionAgent is Agent for the agent of a session, see Mint. It mints no name: if the session has
// none, the error is a problem of code not_found.
func (c *Client) SessionAgent(ctx context.Context, session string) (api.Agent, error) {
	return do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: task.AutoAgent, Session: session})
}
