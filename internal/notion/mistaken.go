package notion

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// gone reports whether Notion knows of no such object.
func gone(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.Status == http.StatusNotFound
}

// mistaken returns an error that says what an id is, if it is no database's, with two more requests
// at most. It returns nil if that is unknown: a database that is not shared looks like one that
// does not exist.
func (c *Client) mistaken(ctx context.Context, id task.ID, key string) error {
	var source struct {
		Object string   `json:"object"`
		Title  rawTitle `json:"title"`
		Parent struct {
			Database string `json:"database_id"`
		} `json:"parent"`
	}
	if c.get(ctx, "/v1/data_sources/"+string(id), nil, &source) == nil {
		of, err := task.ParseID(source.Parent.Database)
		if err != nil {
			return nil
		}
		if key == "" {
			key = "the key with _source behind its name"
		}
		return refusedID(fmt.Sprintf("%s is the id of the data source %q, not of a database: use that of its database, %s, and if the database has several data sources set %s to the one that you gave",
			id, transport.Excerpt(plainText(source.Title)), of, key))
	}
	var page struct {
		Object string `json:"object"`
	}
	if c.get(ctx, "/v1/pages/"+string(id), nil, &page) == nil {
		return refusedID(fmt.Sprintf("%s is the id of a page, not of a database: open the database as a page of its own, and copy the id from its URL", id))
	}
	return nil
}

func refusedID(says string) error {
	return claim.Errorf(claim.Refused, claim.LandedNo, "%s", says)
}
