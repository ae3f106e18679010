package notion

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// survey opens a database that may lack what claims need yet. The properties are db's: they are not
// read again.
func (c *Client) survey(db Database, schema TaskSchema) (*Tasks, error) {
	columns, warnings, _ := schema.find(db, taskColumns{}) // what is missing is made later
	return c.open(db, schema, columns, warnings)
}

// Survey reads the unfinished tasks of a database that may lack what claims need yet, as far as its
// properties say. Without a status they are OPEN, as Notion shows them once it has one.
func (c *Client) Survey(ctx context.Context, db Database, schema TaskSchema) ([]task.Task, error) {
	t, err := c.survey(db, schema)
	if err != nil {
		return nil, err
	}
	rows, _, err := t.Query(ctx, Query{UnfinishedOnly: true})
	for i := range rows {
		if t.codec.Load().columns.status.ID == "" {
			rows[i].Status = task.Open
		}
	}
	return rows, err
}

// Ticked lists the tasks of a database that are ticked as done and were given no status.
func (c *Client) Ticked(ctx context.Context, db Database, schema TaskSchema) ([]task.Task, error) {
	t, err := c.survey(db, schema)
	if err != nil || t.codec.Load().columns.done.ID == "" {
		return nil, err
	}
	rows, _, err := t.Query(ctx, Query{Ticked: true})
	return rows, err
}

// CompleteTicked sets the status of those tasks to COMPLETED, one by one. It reads each of them once
// more, and leaves it alone if somebody took the tick off or chose a status meanwhile. After an error
// the others are left as they are.
func (c *Client) CompleteTicked(ctx context.Context, db Database, schema TaskSchema) error {
	rows, err := c.Ticked(ctx, db, schema)
	if err != nil {
		return err
	}
	t, err := c.survey(db, schema)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := t.Get(ctx, row.ID); err != nil {
			return err
		}
		if on := t.met(row.ID); !on.ticked || !t.codec.Load().isUnset(on.status) {
			continue
		}
		if _, err := t.Write(ctx, row.ID, claim.Write{Status: new(task.Completed)}); err != nil {
			return err
		}
	}
	return nil
}
