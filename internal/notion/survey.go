package notion

import (
	"context"

	"dibs/internal/task"
)

// Survey reads the unfinished tasks of a database that may lack what claims need yet, as far as its
// properties say; none if it has no status. The properties are db's: they are not read again.
func (c *Client) Survey(ctx context.Context, db Database, schema TaskSchema) ([]task.Task, error) {
	columns, warnings, _ := schema.find(db, taskColumns{}) // what is missing is made later
	if !columns.readable() {
		return nil, nil
	}
	t, err := c.open(db.ID, schema, columns, warnings)
	if err != nil {
		return nil, err
	}
	rows, _, err := t.Query(ctx, Query{UnfinishedOnly: true})
	return rows, err
}
