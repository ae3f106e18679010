package notion

import (
	"cmp"
	"context"
	"fmt"

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

// database reads a database, by its id or URL. The key says where the
// configuration names it.
func (c *Client) database(ctx context.Context, id, key string) (database, error) {
	canonical, err := task.ParseID(id)
	if err != nil {
		return database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"%q is not the id of a database: set %s to its id or its URL", id, key)
	}
	var x exchange
	db, err := c.api.Database.Get(x.in(ctx), notionapi.DatabaseID(canonical))
	if err != nil {
		failed := *storeError(err)
		failed.Err = fmt.Errorf("%s: %w", key, failed.Err)
		return database{}, &failed
	}
	title := ""
	for _, s := range db.Title {
		title += s.PlainText
	}
	title = cmp.Or(title, string(canonical))
	if db.Archived {
		return database{}, claim.Errorf(claim.Refused, claim.LandedNo,
			"database %q is in the trash: restore it, or change %s", title, key)
	}
	return database{canonical, title, x.columns}, nil
}
