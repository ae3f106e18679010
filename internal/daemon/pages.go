package daemon

import (
	"context"

	"dibs/internal/broker"
	"dibs/internal/claim"
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

// Whole implements broker.Pages.
func (p pages) Whole(ctx context.Context, id task.ID) (string, error) {
	md, err := p.notion.Markdown(notion.Awaited(ctx), id)
	if err == nil && md.Unloaded > 0 {
		err = claim.Errorf(claim.Unavailable, claim.LandedNo, "%d parts of the page could not be read", md.Unloaded)
	}
	return md.Text, err
}

// Comments implements broker.Pages.
func (p pages) Comments(ctx context.Context, id task.ID) ([]broker.Comment, error) {
	found, err := p.notion.Comments(notion.Awaited(ctx), id)
	comments := make([]broker.Comment, len(found))
	for i, c := range found {
		comments[i] = broker.Comment{By: c.By, Signed: c.Named, At: c.At, Text: c.Text}
	}
	return comments, err
}
