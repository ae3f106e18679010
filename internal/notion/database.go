package notion

import (
	"cmp"
	"context"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// database is what a database says of itself.
type database struct {
	id      task.ID
	title   string
	columns map[string]column // by name
}

// database reads a database, by its id or URL.
func (c *Client) database(ctx context.Context, id string) (database, error) {
	canonical, err := task.ParseID(id)
	if err != nil {
		return database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"%q is not the id of a database: want its id or its URL", id)
	}
	var x exchange
	db, err := c.api.Database.Get(x.in(ctx), notionapi.DatabaseID(canonical))
	if err != nil {
		return database{}, storeError(err)
	}
	title := ""
	for _, s := range db.Title {
		title += s.PlainText
	}
	title = cmp.Or(title, string(canonical))
	if db.Archived {
		return database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"database %q is in the trash: restore it, or use another", title)
	}
	return database{canonical, title, x.columns}, nil
}
