package client

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Mint returns the name of a session, a new one if it has none or none is given.
func (c *Client) Mint(ctx context.Context, body api.MintRequest, key string) (api.Minted, error) {
	return do(ctx, c, api.OpMint, api.MintInput{Key: key, Body: &body})
}

// Agent says how an agent stands, and whether the caller may go by its name.
func (c *Client) Agent(ctx context.Context, name string) (api.Agent, error) {
	return do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: name})
}

// SessionAgent is Agent for the one whose name a session has, see Mint. The session gets
// none by this: without one the error is a problem of code not_found.
func (c *Client) SessionAgent(ctx context.Context, session string) (api.Agent, error) {
	return do(ctx, c, api.OpGetAgent, api.GetAgentInput{Name: task.AutoAgent, Session: session})
}
