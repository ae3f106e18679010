package notion

import (
	"context"
	"errors"
	"sync"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Log is a log database. It uses whatever properties the database has; it needs only a title, which
// every database has. It is safe for concurrent use.
type Log struct {
	client *Client
	id     task.ID // of the database

	mu      sync.Mutex
	layout  layout
	reading chan struct{} // holds a value while somebody reads the database again

	// stale is set if the database has to be read before the next request: it was never read, or
	// Notion refused an entry, so that somebody may have changed it.
	stale bool
}

// Log opens a log database, by its id or URL, with one request. Open the tasks database before: a
// relation is filled in only if it relates to that.
func (c *Client) Log(ctx context.Context, databaseID string) (*Log, error) {
	db, err := c.Database(transport.InLaneUnlessChosen(ctx, transport.LaneLog), databaseID)
	if err != nil {
		return nil, err
	}
	return &Log{client: c, id: db.ID, layout: c.layout(db), reading: make(chan struct{}, 1)}, nil
}

// RecallLog opens a log database without a request. It is read before its first use.
func (c *Client) RecallLog(databaseID string) (*Log, error) {
	id, err := task.ParseID(databaseID)
	return &Log{client: c, id: id, stale: true, reading: make(chan struct{}, 1)}, err
}

func (c *Client) layout(db Database) layout {
	tasks := c.tasks.Load()
	if tasks == nil {
		tasks = new(task.ID)
	}
	return newLayout(db, *tasks)
}

var _ wording.Writer = (*Log)(nil)

// Create implements wording.Writer: it makes an entry, with one request that is sent at most once.
// If the error says that the entry may have landed, Find finds out, though with a delay: Notion's
// queries may lag behind.
func (l *Log) Create(ctx context.Context, e wording.Entry) error {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneLog)
	layout, err := l.current(ctx)
	if err != nil {
		// Only a read has failed, so nothing was written.
		failed := *storeError(err)
		failed.Landed = claim.LandedNo
		return &failed
	}
	if _, _, err := l.client.createPage(ctx, layout.source, layout.page(e)); err != nil {
		return l.noted(err)
	}
	return nil
}

// Find implements wording.Writer: it reports whether there is such an entry.
func (l *Log) Find(ctx context.Context, e wording.Entry) (bool, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneLog)
	found, err := l.search(ctx, e)
	if invalid(err) { // the database has changed
		found, err = l.search(ctx, e)
	}
	return found, err
}

func (l *Log) search(ctx context.Context, e wording.Entry) (bool, error) {
	layout, err := l.current(ctx)
	if err != nil {
		return false, storeError(err)
	}
	answer, _, err := l.client.query(ctx, layout.source, &notionapi.DatabaseQueryRequest{Filter: layout.find(e), PageSize: 1})
	if err != nil {
		return false, l.noted(err)
	}
	return len(answer.Results) > 0, nil
}

// noted is storeError, and records that the schema may have changed.
func (l *Log) noted(err error) *claim.StoreError {
	if invalid(err) || gone(err) {
		l.mu.Lock()
		l.stale = true
		l.mu.Unlock()
	}
	return storeError(err)
}

// invalid reports whether Notion refused a request's content, so that somebody may have changed the
// database.
func invalid(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.Code == codeValidation
}

// current returns the database's layout, read again if it may have changed: by one caller, for
// whom the others wait, each for as long as its context lasts.
func (l *Log) current(ctx context.Context) (layout, error) {
	if known, ok := l.known(); ok {
		return known, nil
	}
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
	case <-ctx.Done():
		return layout{}, context.Cause(ctx)
	}
	if known, ok := l.known(); ok {
		return known, nil
	}
	db, err := l.client.Database(ctx, string(l.id))
	if err != nil {
		return layout{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.layout, l.stale = l.client.layout(db), false
	return l.layout, nil
}

// known returns the layout; ok is false if it may have changed.
func (l *Log) known() (_ layout, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used, _ := l.client.sources.of(l.id)
	return l.layout, !l.stale && used.Source == l.layout.source
}
