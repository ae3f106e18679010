package client

import (
	"context"

	"dibs/internal/api"
)

// Agents returns the agents seen in the last days, 1 to 30; 0 means seven.
func (c *Client) Agents(ctx context.Context, days int) (api.Agents, error) {
	return do(ctx, c, api.OpListAgents, api.ListAgentsInput{Days: days})
}

// Story returns what happened to a claim, by its id, or to a task, by its id or key.
func (c *Client) Story(ctx context.Context, id string) (api.Story, error) {
	return do(ctx, c, api.OpStory, api.StoryInput{ID: id})
}

// Report returns how agents did in the last days, 1 to 366, and what waits for people; 0 means
// seven.
func (c *Client) Report(ctx context.Context, days int) (api.Report, error) {
	return do(ctx, c, api.OpReport, api.ReportInput{Days: days})
}
