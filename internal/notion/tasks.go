package notion

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Tasks is a tasks database. It implements claim.Store, and the mirror reads its rows
// from it. It is safe for concurrent use.
//
// The properties in use are those found when it was opened. They may be renamed. While one of them
// is missing, or has another type, or a status has lost its option, the database is broken, as
// Broken says: nothing is read or written, so nothing is claimed and no claim is judged. Query and
// Check find out when it is whole again, perhaps with another property in place of the lost one.
type Tasks struct {
	client *Client
	title  string
	schema TaskSchema
	codec  atomic.Pointer[codec]
	words  task.Words // those of codec, see Words
	// broken says why nothing can be read or written; nil if that is not known to be so.
	broken   atomic.Pointer[claim.StoreError]
	changing sync.Mutex // held while codec and broken are set
	// doubtful is set when something suggests that the schema was changed.
	doubtful atomic.Bool

	// asked is when Notion was last asked because of a page in the trash, see buried; in
	// nanoseconds since 1970.
	asked atomic.Int64
	// peopled is set if the last list of all tasks had any.
	peopled atomic.Bool

	// all are all properties of the database by name, as last read; nil before the first read.
	all atomic.Pointer[map[string]Column]

	mu sync.Mutex
	// long holds the few relations that are longer than one answer shows. It
	// completes the answers to writes; another request would make those late.
	long lately[relation, []task.ID]
	// shown holds what recently read pages showed beside their tasks.
	shown lately[task.ID, shown]
	// skipped are the rows of queries that are no tasks.
	skipped []skipped
	// missed holds the ids of fields that a page lacked, each of which made the schema doubtful
	// once.
	missed map[string]bool
	// notes holds the notes of recently read pages.
	notes lately[task.ID, note]
	// visited holds the pages that were read with permits, see isBasis.
	visited lately[task.ID, struct{}]
}

var _ claim.Store = (*Tasks)(nil)

// Tasks opens a tasks database by its id or its URL, with one request. If the database lacks
// what claims need, it fails, and the error says what to change.
func (c *Client) Tasks(ctx context.Context, databaseID string, schema TaskSchema) (*Tasks, error) {
	db, err := c.Database(ctx, databaseID)
	if err != nil {
		return nil, err
	}
	columns, warnings, err := schema.find(db, schema.recalled())
	if err != nil {
		return nil, err
	}
	t, err := c.open(db, schema, columns, warnings)
	if err != nil {
		return nil, err
	}
	t.title = db.Title
	t.all.Store(&db.Columns)
	return t, nil
}

func (c *Client) open(db Database, schema TaskSchema, columns taskColumns, warnings []string) (*Tasks, error) {
	codec, err := newCodec(db, schema, columns, warnings)
	if err != nil {
		return nil, err
	}
	t := &Tasks{client: c, schema: schema}
	t.use(codec)
	return t, nil
}

// use sets the codec and its words.
func (t *Tasks) use(c *codec) {
	t.codec.Store(c)
	t.client.tasks.Store(&c.source)
	t.words.Set(c.words)
}

// Words returns what the board calls statuses and priorities. They follow a change of its schema.
func (t *Tasks) Words() *task.Words { return &t.words }

// Warnings returns one line for each thing amiss: what cannot be done because the database
// lacks properties, and which rows are skipped because they are no tasks.
func (t *Tasks) Warnings() []string {
	return slices.Concat(t.codec.Load().warnings, t.skippedRows())
}

// ID returns the database's id.
func (t *Tasks) ID() task.ID { return t.codec.Load().database }

// Title returns the database's title as it was when it was opened; empty if it was opened
// without Notion.
func (t *Tasks) Title() string { return t.title }

// HasNote reports whether the database has a property for the note.
func (t *Tasks) HasNote() bool { return t.codec.Load().columns.note.ID != "" }

// Permit implements claim.Store, see Client.Permit. It fails while the database is broken.
func (t *Tasks) Permit(ctx context.Context, n int) (context.Context, error) {
	if err := t.Broken(); err != nil {
		return nil, err
	}
	return t.client.Permit(ctx, n)
}

// Now implements claim.Store, see Client.Now.
func (t *Tasks) Now() time.Time { return t.client.Now() }

// Get implements claim.Store. A task with more than 25 dependencies takes further requests,
// with their own permits. If a page has lost a property, or has an unknown status, Get reads the
// schema with one more request.
func (t *Tasks) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	if err := t.Broken(); err != nil {
		return claim.Reading{}, err
	}
	c := t.codec.Load()
	shown := noted{property: c.columns.note.ID}
	at, err := t.client.getPage(ctx, id, &shown)
	if err != nil {
		return claim.Reading{}, t.missing(ctx, storeError(err))
	}
	read, err := t.row(ctx, c, &shown.page)
	if lost(err) || c.newStatus(&shown.page) {
		if err := t.Check(ctx); err != nil {
			return claim.Reading{}, storeError(err)
		}
		c = t.codec.Load()
		read, err = t.row(ctx, c, &shown.page)
	}
	if err == nil && read.ID != id {
		err = anotherPage(read.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	if read.Trashed && transport.HasPermits(ctx) { // somebody counts on it
		if err := t.buried(ctx); err != nil {
			return claim.Reading{}, storeError(err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isBasis(ctx, id) {
		t.meet(id, c.shownBy(&shown.page))
		t.noteOn(id, &shown)
	}
	return reading(read, at), nil
}

// missing returns the error of a page that could not be read. If Notion does not know the page,
// missing checks whether the database is still there; only then is the page gone. While a
// database is not shared, Notion does not know its pages either, and they come back unchanged
// with the database.
func (t *Tasks) missing(ctx context.Context, failed *claim.StoreError) error {
	if failed.Kind != claim.NotFound {
		return failed
	}
	err := t.Check(ctx)
	board, isStore := errors.AsType[*claim.StoreError](err)
	switch {
	case err == nil:
		return failed
	case isStore && board.Kind == claim.NotFound:
		return &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: board}
	default:
		return err
	}
}

// isBasis reports whether the next write to the page may rest on this read, made with ctx. A write
// rests on the read for which it took its permits. The mirror reads pages at any moment: an
// answer that it gets in between may be older, and the write would overwrite what a person has
// changed since. t.mu is held.
func (t *Tasks) isBasis(ctx context.Context, id task.ID) bool {
	if transport.HasPermits(ctx) {
		t.visited.put(id, struct{}{})
		return true
	}
	_, visited := t.visited.get(id)
	return !visited
}

// meet remembers what a page shows beside its task. t.mu is held.
func (t *Tasks) meet(id task.ID, on shown) {
	if on.empty() {
		t.shown.forget(id)
	} else {
		t.shown.put(id, on)
	}
}

// met returns what the page showed beside its task when it was last read.
func (t *Tasks) met(id task.ID) shown {
	t.mu.Lock()
	defer t.mu.Unlock()
	on, _ := t.shown.get(id)
	return on
}

// Write implements claim.Store. If Notion refuses a write for its content, the write is sent
// once more without its note: the task's state matters more than the note.
func (t *Tasks) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	if err := t.Broken(); err != nil {
		return claim.Reading{}, err
	}
	c := t.codec.Load()
	props, err := c.properties(w, t.met(id))
	if err != nil {
		return claim.Reading{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
	}
	noted := t.addNote(c, id, w, props)
	t.client.writing(id)
	update := &notionapi.PageUpdateRequest{Properties: props}
	shown, at, err := t.client.updatePage(ctx, id, update)
	if noted && err != nil && storeError(err).Kind == claim.Refused {
		t.doubtful.Store(true)
		delete(props, c.columns.note.ID)
		shown, at, err = t.client.updatePage(ctx, id, update)
	}
	if err != nil {
		failed := t.noted(err)
		if failed.Kind == claim.Trashed {
			if err := t.buried(ctx); err != nil {
				return claim.Reading{}, storeError(err)
			}
		}
		return claim.Reading{}, failed
	}
	written, err := t.read(c, shown)
	if err == nil && written.ID != id {
		err = anotherPage(written.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	err = c.whole(shown, &written, t.recall)
	return reading(written, at), err
}

// anotherPage returns the error of an answer that shows another page than the requested one.
func anotherPage(got, want task.ID) error {
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion answered with page %s where page %s was asked for", got, want)
}
