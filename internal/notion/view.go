package notion

import (
	"context"
	"fmt"
	"net/url"

	"dibs/internal/task"
)

// mostViews is how many views of a database are examined.
const mostViews = 10

// HasBoard reports whether one of a database's first views is of type board. It makes one
// request for the list, and up to one for each view.
func (c *Client) HasBoard(ctx context.Context, database task.ID) (bool, error) {
	type view struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	var listed struct {
		Results []view `json:"results"`
	}
	query := url.Values{"database_id": {string(database)}, "page_size": {fmt.Sprint(mostViews)}}
	if err := c.get(ctx, "/v1/views", query, &listed); err != nil {
		return false, storeError(err)
	}
	for _, v := range listed.Results {
		if v.Type == "" { // the list may have only references
			if err := c.get(ctx, "/v1/views/"+url.PathEscape(v.ID), nil, &v); err != nil {
				return false, storeError(err)
			}
		}
		if v.Type == "board" {
			return true, nil
		}
	}
	return false, nil
}

// AddBoard adds a view of type board to a database, with a column for each option of the
// property, which is a status or a select. Its last request makes the view and is
// sent at most once.
func (c *Client) AddBoard(ctx context.Context, database task.ID, name, property string) error {
	db, err := c.Database(ctx, string(database))
	if err != nil {
		return err
	}
	col := db.Columns[property]
	group := map[string]any{"type": col.Type, "property_id": col.ID, "sort": map[string]any{"type": "manual"}}
	if col.Type == typeStatus {
		group["group_by"] = "option"
	}
	err = c.post(ctx, "/v1/views", map[string]any{
		"database_id": database, "data_source_id": db.Source, "name": name, "type": "board",
		"configuration": map[string]any{"type": "board", "group_by": group},
	}, nil)
	if err != nil {
		return storeError(err)
	}
	return nil
}
