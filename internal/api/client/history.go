package client

import (
	"context"

	"dibs/internal/api"
)

// Agents returns the agents heard of in the last days, 1 to 30; 0 is seven.
func (c *Client) Agents(ctx context.Context, days int) (api.Agents, error) {
	return do(ctx, c, api.OpListAgents, api.ListAgentsInput{Days: days})
}

// History returns what happened in the last hours, 1 to 168, in steps of whole minutes of
// which there are at most points, 10 to 500; 0 is six hours, and 72 points.
func (c *Client) History(ctx context.Context, hours, points int) (api.History, error) {
	return do(ctx, c, api.OpHistory, api.HistoryInput{Hours: hours, Points: points})
}
