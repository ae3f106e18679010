package notion

import (
	"context"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Tasks is a tasks database. It implements claim.Store, and is where the mirror
// reads its rows from. It is safe for concurrent use.
type Tasks struct {
	*codec
	client   *Client
	warnings []string

	mu sync.Mutex
	// long holds the dependencies, as last read, of the few tasks that have more
	// than an answer shows. It completes the answers to writes: another request
	// would make those late.
	long map[task.ID][]task.ID
}

var _ claim.Store = (*Tasks)(nil)

// Tasks opens a tasks database, by its id or its URL, with one request. It fails
// if the database lacks what claims cannot do without, and says what to change.
func (c *Client) Tasks(ctx context.Context, databaseID string, schema TaskSchema) (*Tasks, error) {
	db, err := c.Database(ctx, databaseID)
	if err != nil {
		return nil, err
	}
	columns, warnings, err := schema.find(db)
	if err != nil {
		return nil, err
	}
	codec, err := newCodec(db.ID, schema, columns)
	if err != nil {
		return nil, err
	}
	c.tasks.Store(&db.ID)
	return &Tasks{codec: codec, client: c, warnings: warnings, long: make(map[task.ID][]task.ID)}, nil
}

// Warnings says what cannot be done because the database lacks properties, one
// line each.
func (t *Tasks) Warnings() []string { return slices.Clone(t.warnings) }

// HasToken reports whether the database keeps claim tokens.
func (t *Tasks) HasToken() bool { return t.columns.token.ID != "" }

// Permit implements claim.Store, see Client.Permit.
func (t *Tasks) Permit(ctx context.Context, n int) (context.Context, error) {
	return t.client.Permit(ctx, n)
}

// Now implements claim.Store, see Client.Now.
func (t *Tasks) Now() time.Time { return t.client.Now() }

// Get implements claim.Store. A task with more than 25 dependencies takes further
// requests, with permits of their own.
func (t *Tasks) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	var x exchange
	page, err := t.client.api.Page.Get(x.in(ctx), notionapi.PageID(id))
	if err != nil {
		return claim.Reading{}, storeError(err)
	}
	read, err := t.row(ctx, page, &x)
	if err != nil {
		return claim.Reading{}, err
	}
	return claim.Reading{Task: read, At: x.at(t.client.clock)}, nil
}

// Write implements claim.Store.
func (t *Tasks) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	props, err := t.properties(w)
	if err != nil {
		return claim.Reading{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
	}
	var x exchange
	page, err := t.client.api.Page.Update(x.in(ctx), notionapi.PageID(id), &notionapi.PageUpdateRequest{Properties: props})
	if err != nil {
		return claim.Reading{}, storeError(err)
	}
	written, err := t.task(page)
	if err != nil {
		return claim.Reading{}, err
	}
	if x.truncated[t.dependencies(page)] {
		written.DependsOn = t.recall(written.ID, written.DependsOn)
	}
	return claim.Reading{Task: written, At: x.at(t.client.clock)}, nil
}
