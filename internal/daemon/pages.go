package daemon

import (
	"context"

	"dibs/internal/broker"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// pages reads tasks' pages from Notion. An agent is waiting for the answer, so the requests go
// first.
type pages struct{ notion *notion.Client }

var _ broker.Pages = pages{}

// Text implements broker.Pages.
func (p pages) Text(ctx context.Context, id task.ID) (string, []string, error) {
	md, err := p.notion.Markdown(notion.Awaited(ctx), id)
	return md.Text, md.Missing, err
}

// Comments implements broker.Pages.
func (p pages) Comments(ctx context.Context, id task.ID) ([]broker.Comment, error) {
	found, err := p.notion.Comments(notion.Awaited(ctx), id)
	comments := make([]broker.Comment, len(found))
	for i, c := range found {
		comments[i] = broker.Comment{By: c.By, At: c.At, Text: c.Text}
	}
	return comments, err
}
