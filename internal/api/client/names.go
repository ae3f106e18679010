package client

import (
	"context"
	"net/url"

	"dibs/internal/api"
)

// Mint returns the name of a session, a new one if it has none or none is given.
func (c *Client) Mint(ctx context.Context, body api.MintRequest, key string) (api.Minted, error) {
	return ask[api.Minted](ctx, c, post("/v1/agents", body, key))
}

// Agent says how an agent stands, and whether the caller may go by its name.
func (c *Client) Agent(ctx context.Context, name string) (api.Agent, error) {
	return ask[api.Agent](ctx, c, get("/v1/agents/"+url.PathEscape(name), nil))
}
