package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// rawPage is the part of a page in an answer that is read here. A row of a query may also be a
// database.
type rawPage struct {
	Object     string     `json:"object"`
	ID         string     `json:"id"`
	URL        string     `json:"url"`
	Created    time.Time  `json:"created_time"` // cut to the minute, as is Edited
	Edited     time.Time  `json:"last_edited_time"`
	CreatedBy  userID     `json:"created_by"`
	EditedBy   userID     `json:"last_edited_by"`
	Archived   bool       `json:"archived"`
	InTrash    bool       `json:"in_trash"`
	IsArchived bool       `json:"is_archived"`
	Parent     rawParent  `json:"parent"`
	Properties properties `json:"properties"`
	Title      rawTitle   `json:"title"` // of a database
}

func (p *rawPage) kind() string { return p.Object }

// trashed reports whether the page is no task to work on: it is in the trash, or archived, which
// queries do not tell apart.
func (p *rawPage) trashed() bool { return p.Archived || p.InTrash || p.IsArchived }

// userID is the id of a user in an answer; empty if it is of another form.
type userID string

// UnmarshalJSON implements json.Unmarshaler.
func (u *userID) UnmarshalJSON(data []byte) error {
	var user person
	if json.Unmarshal(data, &user) == nil {
		*u = userID(user.ID)
	}
	return nil
}

// rawParent says where a page lies.
type rawParent struct {
	Type     string `json:"type"`
	Database string `json:"database_id"`
	Source   string `json:"data_source_id"`
}

// in reports whether the page lies in a data source of a database. elsewhere says that it is known
// to lie somewhere else.
func (p rawParent) in(database, source task.ID) (is, elsewhere bool) {
	if id, err := task.ParseID(p.Source); err == nil {
		return id == source, id != source
	}
	id, err := task.ParseID(p.Database)
	return false, err == nil && id != database || p.Type == "page_id" || p.Type == "block_id" || p.Type == "workspace"
}

// notedPage is a page with the spans of one of its texts as Notion sent them.
type notedPage struct {
	rawPage
	property string // the id of the text; empty for none
	spans    []json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *notedPage) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &n.rawPage); err != nil || n.property == "" {
		return err
	}
	var texts struct {
		Properties map[string]struct {
			ID    string            `json:"id"`
			Spans []json.RawMessage `json:"rich_text"`
		} `json:"properties"`
	}
	if json.Unmarshal(data, &texts) == nil {
		for _, p := range texts.Properties {
			if p.ID == n.property && p.Spans != nil {
				n.spans = p.Spans
			}
		}
	}
	return nil
}

// rawRows is an answer to a query.
type rawRows struct {
	Object        string    `json:"object"`
	Results       []rawPage `json:"results"`
	HasMore       bool      `json:"has_more"`
	NextCursor    *string   `json:"next_cursor"`
	RequestStatus struct {
		Type   string `json:"type"`
		Reason string `json:"incomplete_reason"`
	} `json:"request_status"`
}

func (r *rawRows) kind() string { return r.Object }

// UnmarshalJSON implements json.Unmarshaler. A list without results is not an empty one.
func (r *rawRows) UnmarshalJSON(data []byte) error {
	type fields rawRows
	err := json.Unmarshal(data, (*fields)(r))
	if err == nil && r.Object == "list" && r.Results == nil {
		return errors.New("a list without results")
	}
	return err
}

// incomplete says why the results are incomplete; empty if they are not.
func (r *rawRows) incomplete() string {
	if s := r.RequestStatus; s.Type == "incomplete" {
		return cmp.Or(s.Reason, s.Type)
	}
	return ""
}

// next returns the cursor of the next answer, which must differ from the last one; empty if there
// is none.
func (r *rawRows) next(last string) (string, error) {
	if !r.HasMore {
		return "", nil
	}
	if r.NextCursor == nil || *r.NextCursor == "" || *r.NextCursor == last {
		return "", errNoCursor
	}
	return *r.NextCursor, nil
}

// skippedRow is a row in a query's answer that is no task.
type skippedRow struct {
	id, title string
	why       string
	partial   bool // it may be a task, but shows too little to be read
}

func (s skippedRow) String() string {
	name := cmp.Or(s.id, "of unknown id")
	if s.title != "" {
		name = fmt.Sprintf("%q (%s)", transport.Excerpt(s.title), name)
	}
	return fmt.Sprintf("row %s is skipped: it %s", name, s.why)
}

// odd describes a row of a query that is no page, or shows too little to be a task.
func (p *rawPage) odd() (skippedRow, bool) {
	row := skippedRow{id: shortened(transport.Excerpt(p.ID))}
	switch {
	case p.Object == "database", p.Object == "data_source":
		row.title = shortened(plainText(p.Title))
		row.why = "is a database, as wikis have them among their pages"
	case p.Properties == nil && p.Object == "page" && p.ID != "":
		row.partial = true
		row.why = "is shown without its properties: see whether the connection may read it"
	default:
		return skippedRow{}, false
	}
	return row, true
}

// reading returns a task of an answer with the answer's time.
func reading(t task.Task, m transport.Moment) claim.Reading {
	return claim.Reading{Task: t, At: m.At, Unsure: !m.Sure}
}

// page reads a page, with one request. The error is a *claim.StoreError.
func (c *Client) page(ctx context.Context, id task.ID) (*rawPage, error) {
	shown := new(rawPage)
	if _, err := c.getPage(ctx, id, shown); err != nil {
		return nil, storeError(err)
	}
	return shown, nil
}

// getPage reads a page into a *page or a *noted, with one request.
func (c *Client) getPage(ctx context.Context, id task.ID, into any) (transport.Moment, error) {
	return c.call(ctx, into, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Page.Get(ctx, notionapi.PageID(id))
		return err
	})
}

// createPage makes a page in a data source, with one request that is sent at most once.
func (c *Client) createPage(ctx context.Context, source task.ID, request *notionapi.PageCreateRequest) (*rawPage, transport.Moment, error) {
	request.Parent = notionapi.Parent{Type: notionapi.ParentTypeDatabaseID, DatabaseID: notionapi.DatabaseID(source)}
	made := new(rawPage)
	at, err := c.call(ctx, made, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Page.Create(ctx, request)
		return err
	})
	return made, at, err
}

// updatePage changes a page, with one request that is sent at most once.
func (c *Client) updatePage(ctx context.Context, id task.ID, request *notionapi.PageUpdateRequest) (*rawPage, transport.Moment, error) {
	shown := new(rawPage)
	at, err := c.call(ctx, shown, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Page.Update(ctx, notionapi.PageID(id), request)
		return err
	})
	return shown, at, err
}

// query asks a data source for rows, with one request. only lists the properties to be shown, by id;
// without any all are.
func (c *Client) query(ctx context.Context, source task.ID, request *notionapi.DatabaseQueryRequest, only ...string) (*rawRows, transport.Moment, error) {
	answer := new(rawRows)
	at, err := c.call(ctx, answer, func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Database.Query(ctx, notionapi.DatabaseID(source), request)
		return err
	}, only...)
	return answer, at, err
}
