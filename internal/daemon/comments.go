package daemon

import (
	"context"

	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/outbox/wording"
)

// comments writes agents' comments on tasks while the configuration allows it.
type comments struct {
	*notion.CommentLog
	people *notion.People
	on     func() bool
	off    func(wording.Entry) // called with an entry that is dropped because comments are off
}

func (d *works) newComments() comments {
	return comments{
		d.notion.CommentLog(), d.notion.People(), func() bool { return d.live.Load().Notion.Comments },
		func(e wording.Entry) {
			d.log.Info("notion.comments is off: a comment that is owed is dropped", "entry", e.ID, claim.AttrTitle, e.Title)
		},
	}
}

// On implements broker.Comments.
func (c comments) On() bool { return c.on() }

// People implements broker.Comments.
func (c comments) People(ctx context.Context, anew bool) ([]broker.Person, error) {
	list, err := c.people.List(ctx, anew)
	people := make([]broker.Person, len(list))
	for i, p := range list {
		people[i] = broker.Person(p)
	}
	return people, err
}

// Create implements wording.Writer. While comments are off it drops what was queued when they were
// on, so that nobody receives it long afterwards.
func (c comments) Create(ctx context.Context, e wording.Entry) error {
	if !c.on() && !e.Comment.Asked {
		c.off(e)
		return nil
	}
	return c.CommentLog.Create(ctx, e)
}

// Find implements wording.Writer.
func (c comments) Find(ctx context.Context, e wording.Entry) (bool, error) {
	if !c.on() && !e.Comment.Asked {
		c.off(e)
		return true, nil
	}
	return c.CommentLog.Find(ctx, e)
}
