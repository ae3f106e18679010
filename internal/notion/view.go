package notion

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
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
	if err := c.getIn(ctx, sourcesVersion, "/v1/views", query, &listed); err != nil {
		return false, storeError(err)
	}
	for _, v := range listed.Results {
		if v.Type == "" { // the list may have only references
			if err := c.getIn(ctx, sourcesVersion, "/v1/views/"+url.PathEscape(v.ID), nil, &v); err != nil {
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
	source := db.Source
	if source == "" {
		listed, err := c.listSources(ctx, database)
		if err != nil {
			return err
		}
		if len(listed.Sources) != 1 {
			return &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: listed}
		}
		source = listed.Sources[0].ID
	}
	col := db.Columns[property]
	group := map[string]any{"type": col.Type, "property_id": col.ID, "sort": map[string]any{"type": "manual"}}
	if col.Type == typeStatus {
		group["group_by"] = "option"
	}
	return c.post(ctx, "/v1/views", map[string]any{
		"database_id": database, "data_source_id": source, "name": name, "type": "board",
		"configuration": map[string]any{"type": "board", "group_by": group},
	}, nil)
}

// post makes a request that the library has no call for, in the version that knows data
// sources. It is sent at most once. post decodes the body of the answer into answer, as far as
// possible; nil for not at all.
func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, transport.DefaultBaseURL+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Notion-Version", sourcesVersion)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return storeError(err)
	}
	defer resp.Body.Close()
	if answer != nil {
		_ = json.NewDecoder(resp.Body).Decode(answer) // a good answer means success, even if it cannot be decoded
	}
	return nil
}
