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
// The properties in use are those found when it was opened. They may be renamed. If one
// of them is gone, or has another type, the database is broken:
//
//   - Nothing can be claimed, as Broken says, until Query finds the database mended.
//   - The last known value of the property stands in for it, see Remember, and held
//     claims can be worked with.
//   - If claims are recognised by the property, held claims cannot be worked with either,
//     and Permit fails.
//   - If it is the status, tasks cannot even be read.
//
// The database is broken, too, once it has several data sources and none is known to be
// meant. Held claims can then be worked with.
type Tasks struct {
	client *Client
	title  string
	schema TaskSchema
	codec  atomic.Pointer[codec]
	words  task.Words // those of codec, see Words
	// broken is what is wrong with the database, or nil. When a property is lost, broken is set
	// first, and the codec for pages without the property second.
	broken   atomic.Pointer[breakage]
	changing sync.Mutex // held while codec and broken are set
	// doubtful is set when something suggests that the schema was changed.
	doubtful atomic.Bool

	last func(task.ID) (task.Task, bool) // returns a task as last read, see Remember

	// all are all properties of the database by name, as last read; nil before the first read.
	all atomic.Pointer[map[string]Column]

	mu sync.Mutex
	// long holds the few relations that are longer than one answer shows. It
	// completes the answers to writes; another request would make those late.
	long lately[relation, []task.ID]
	// shown holds what recently read pages showed beside their tasks.
	shown lately[task.ID, shown]
	// remade is nonzero from the moment at which the option for IN_PROGRESS is found deleted,
	// or made anew, until all tasks have been read since.
	remade, remades int
	cleared         map[task.ID]clearedTask
	// skipped are the rows of queries that are no tasks.
	skipped []skipped
	// missed holds the ids of fields that a page lacked, each of which made the schema doubtful
	// once.
	missed map[string]bool
	// notes holds the notes of recently read pages.
	notes lately[task.ID, note]
	// visited holds the pages that were read with permits, see goneBy.
	visited lately[task.ID, struct{}]
	// only is the database's only data source; empty until needed.
	only task.ID
}

var _ claim.Store = (*Tasks)(nil)

// Tasks opens a tasks database by its id or its URL, with one request. If the database lacks
// what claims need, it fails, and the error says what to change.
func (c *Client) Tasks(ctx context.Context, databaseID string, schema TaskSchema) (*Tasks, error) {
	if known, columns := schema.recall(); known.Wanted == "" {
		c.sources.recall(known.Database, columns)
	}
	db, err := c.Database(ctx, databaseID)
	if err != nil {
		return nil, err
	}
	known := schema.recalled()
	columns, warnings, err := schema.find(db, known)
	if err != nil {
		return nil, err
	}
	t, err := c.open(db.ID, schema, columns, warnings)
	if err != nil {
		return nil, err
	}
	t.title = db.Title
	t.all.Store(&db.Columns)
	if schema.remade(known.status, columns.status) {
		t.setRemade()
	}
	return t, nil
}

func (c *Client) open(database task.ID, schema TaskSchema, columns taskColumns, warnings []string) (*Tasks, error) {
	codec, err := newCodec(database, schema, columns)
	if err != nil {
		return nil, err
	}
	codec.warnings = warnings
	c.tasks.Store(&database)
	t := &Tasks{client: c, schema: schema, last: forgotten}
	t.use(codec)
	return t, nil
}

// use sets the codec and its words.
func (t *Tasks) use(c *codec) {
	t.codec.Store(c)
	t.words.Set(c.words)
}

// Words returns what the board calls statuses and priorities. They follow a change of its schema.
func (t *Tasks) Words() *task.Words { return &t.words }

// Warnings returns one line for each thing amiss: what cannot be done because the database
// lacks properties, which rows are skipped because they are no tasks, and whether there are
// several data sources and none was named.
func (t *Tasks) Warnings() []string {
	c := t.codec.Load()
	warnings := slices.Concat(c.warnings, t.skippedRows())
	if said := t.client.SourceAdded(c.database, "the tasks database"); said != "" {
		warnings = append(warnings, said)
	}
	return warnings
}

// ID returns the database's id.
func (t *Tasks) ID() task.ID { return t.codec.Load().database }

// Title returns the database's title as it was when it was opened; empty if it was opened
// without Notion.
func (t *Tasks) Title() string { return t.title }

// HasToken reports whether the database keeps claim tokens.
func (t *Tasks) HasToken() bool { return t.codec.Load().columns.token.ID != "" }

// HasNote reports whether the database has a property for the note.
func (t *Tasks) HasNote() bool { return t.codec.Load().columns.note.ID != "" }

// Permit implements claim.Store, see Client.Permit. It fails while the database is too broken
// to work with held claims.
func (t *Tasks) Permit(ctx context.Context, n int) (context.Context, error) {
	if b := t.broken.Load(); b != nil && !b.workable {
		return nil, b.err
	}
	return t.client.Permit(ctx, n)
}

// Now implements claim.Store, see Client.Now.
func (t *Tasks) Now() time.Time { return t.client.Now() }

// Get implements claim.Store. A task with more than 25 dependencies takes further requests,
// with their own permits. If a page has lost a property, or is no longer in progress although
// its claim is on it, Get reads the schema with one more request.
func (t *Tasks) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	c := t.codec.Load()
	x := exchange{verbatim: c.columns.note.ID, fields: c.fieldIDs()}
	page, err := t.client.api.Page.Get(x.in(ctx), notionapi.PageID(id))
	if err != nil {
		return claim.Reading{}, t.missing(ctx, storeError(err))
	}
	x.complete(page)
	read, err := t.row(ctx, c, page, &x)
	if lost(err) {
		err = t.noted(err)
		if t.Check(ctx) == nil {
			c = t.codec.Load()
			read, err = t.row(ctx, c, page, &x)
		}
	}
	if err == nil && t.doubts(read) {
		if err := t.checkProgress(ctx); err != nil {
			return claim.Reading{}, storeError(err)
		}
		c = t.codec.Load()
		read, err = t.row(ctx, c, page, &x)
	}
	if err == nil && read.ID != id {
		err = anotherPage(read.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	if b := t.broken.Load(); b != nil && !b.workable {
		if _, remembered := t.last(id); !remembered || transport.HasPermits(ctx) {
			return claim.Reading{}, b.err // the permits were taken before that was known
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.goneBy(ctx, id) {
		t.meet(id, c.shownBy(page))
		t.noteOn(id, &x)
	}
	return x.reading(read), nil
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

// goneBy reports whether the next write of a page goes by what a read with ctx shows. A write
// rests on the read for which it took its permits. The mirror reads pages at any moment: an
// answer that it gets in between may be older, and the write would overwrite what a person has
// changed since. t.mu is held.
func (t *Tasks) goneBy(ctx context.Context, id task.ID) bool {
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
	c := t.codec.Load()
	props, err := c.properties(w, t.met(id))
	if err != nil {
		return claim.Reading{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
	}
	noted := t.addNote(c, id, w, props)
	x := exchange{fields: c.fieldIDs()}
	t.client.writing(id)
	page, err := t.client.api.Page.Update(x.in(ctx), notionapi.PageID(id), &notionapi.PageUpdateRequest{Properties: props})
	if noted && err != nil && storeError(err).Kind == claim.Refused {
		t.doubtful.Store(true)
		delete(props, c.columns.note.ID)
		page, err = t.client.api.Page.Update(x.in(ctx), notionapi.PageID(id), &notionapi.PageUpdateRequest{Properties: props})
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	x.complete(page)
	written, err := t.read(c, page, &x)
	if err == nil && written.ID != id {
		err = anotherPage(written.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	err = c.whole(page, &x, &written, t.recall)
	return x.reading(written), err
}

// anotherPage returns the error of an answer that shows another page than the requested one.
func anotherPage(got, want task.ID) error {
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion answered with page %s where page %s was asked for", got, want)
}
