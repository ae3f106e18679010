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
// of them is found to be gone, or of another type, the database is broken:
//
//   - Nothing can be claimed, as Broken says, until Query finds the database mended.
//   - The last known value of the property stands in for it, see Remember, and claims
//     that are held can be worked with.
//   - If a claim is known by the property, claims that are held cannot be worked with
//     either, and Permit fails.
//   - If it is the status, tasks cannot even be read.
//
// The database is broken, too, once it has several data sources and it is not known
// which one is meant. Claims that are held can then be worked with.
type Tasks struct {
	client *Client
	title  string
	schema TaskSchema
	codec  atomic.Pointer[codec]
	// broken is what is wrong with the database at present, or nil. When a property is
	// lost, broken is set first, and the codec for pages without it after that.
	broken   atomic.Pointer[breakage]
	changing sync.Mutex // held by whoever sets codec and broken
	// doubtful is set when something suggests that the schema was changed.
	doubtful atomic.Bool

	last func(task.ID) (task.Task, bool) // a task as it was last read, see Remember

	// all are all properties of the database, by name, as they were last read; nil if
	// they have not been.
	all atomic.Pointer[map[string]Column]

	mu sync.Mutex
	// long holds the dependencies of the few tasks that have more of them than an answer
	// shows. It completes the answers to writes, which another request would make late.
	long lately[[]task.ID]
	// strangers holds the holders that pages showed, where those were strangers.
	strangers lately[stranger]
	// remade is not zero from when the option for IN_PROGRESS is found to be deleted, or
	// made anew, until all tasks have been read since.
	remade, remades int
	cleared         map[task.ID]clearedTask
	// skipped are the rows that queries showed and that are no tasks.
	skipped []skipped
	// missed has the ids of fields that a page was found to lack, which made the schema
	// doubtful once.
	missed map[string]bool
	// notes holds the notes that pages showed when they were last read.
	notes lately[note]
	// visited has the pages that were read with permits, see goneBy.
	visited lately[struct{}]
	// only is the database's only data source, and bot the user who makes pages here.
	// Both are empty until they are needed.
	only task.ID
	bot  string
}

var _ claim.Store = (*Tasks)(nil)

// Tasks opens a tasks database, by its id or its URL, with one request. If the database
// lacks what claims cannot do without, it fails, and the error says what to change.
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
	t.codec.Store(codec)
	return t, nil
}

// Warnings says what cannot be done because the database lacks properties, which rows are
// skipped because they are no tasks, and whether there are several data sources of which
// none was named, one line each.
func (t *Tasks) Warnings() []string {
	c := t.codec.Load()
	warnings := slices.Concat(c.warnings, t.skippedRows())
	if said := t.client.SourceAdded(c.database, "the tasks database"); said != "" {
		warnings = append(warnings, said)
	}
	return warnings
}

// ID is the database's id.
func (t *Tasks) ID() task.ID { return t.codec.Load().database }

// Title is the database's title as it was when it was opened; empty if that was without
// Notion.
func (t *Tasks) Title() string { return t.title }

// HasToken reports whether the database keeps claim tokens.
func (t *Tasks) HasToken() bool { return t.codec.Load().columns.token.ID != "" }

// Permit implements claim.Store, see Client.Permit. It fails while the database is broken
// in such a way that claims that are held cannot be worked with.
func (t *Tasks) Permit(ctx context.Context, n int) (context.Context, error) {
	if b := t.broken.Load(); b != nil && !b.workable {
		return nil, b.err
	}
	return t.client.Permit(ctx, n)
}

// Now implements claim.Store, see Client.Now.
func (t *Tasks) Now() time.Time { return t.client.Now() }

// Get implements claim.Store. A task with more than 25 dependencies takes further
// requests, with permits of their own. For a page that has lost a property, or is not in
// progress any more while its claim is on it, it reads the schema with one more request.
func (t *Tasks) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	c := t.codec.Load()
	x := exchange{verbatim: c.columns.note.ID, fields: c.fieldIDs()}
	page, err := t.client.api.Page.Get(x.in(ctx), notionapi.PageID(id))
	if err != nil {
		return claim.Reading{}, t.missing(ctx, storeError(err))
	}
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
			return claim.Reading{}, b.err // the permits are from before that was known
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.goneBy(ctx, id) {
		t.meet(id, c.strangerOn(page))
		t.noteOn(id, &x)
	}
	return x.reading(read), nil
}

// missing is the error of a page that could not be read. If Notion does not know the
// page, missing looks whether the database is still there, and only then is the page
// gone. When a database is not shared any more, Notion does not know its pages either,
// and they are as before once it is shared again.
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

// goneBy reports whether the next write of a page goes by what a read with ctx shows. A
// write rests on the read for which it took its permits. The mirror reads pages at any
// moment: an answer that it gets meanwhile may be the older one, and what a person changed
// in between would be overwritten. t.mu is held.
func (t *Tasks) goneBy(ctx context.Context, id task.ID) bool {
	if transport.HasPermits(ctx) {
		t.visited.put(id, struct{}{})
		return true
	}
	_, visited := t.visited.get(id)
	return !visited
}

// meet remembers the stranger that a page showed, or that it showed none. t.mu is held.
func (t *Tasks) meet(id task.ID, who stranger) {
	if who.name == "" {
		t.strangers.forget(id)
	} else {
		t.strangers.put(id, who)
	}
}

// met returns the stranger whom the page showed when it was last read.
func (t *Tasks) met(id task.ID) stranger {
	t.mu.Lock()
	defer t.mu.Unlock()
	who, _ := t.strangers.get(id)
	return who
}

// Write implements claim.Store. A write that Notion refuses for what it says is sent once
// more without its note: what a task is matters more than what is said of it.
func (t *Tasks) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	c := t.codec.Load()
	props, err := c.properties(w, t.met(id))
	if err != nil {
		return claim.Reading{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
	}
	noted := t.addNote(c, id, w, props)
	x := exchange{fields: c.fieldIDs()}
	page, err := t.client.api.Page.Update(x.in(ctx), notionapi.PageID(id), &notionapi.PageUpdateRequest{Properties: props})
	if noted && err != nil && storeError(err).Kind == claim.Refused {
		t.doubtful.Store(true)
		delete(props, c.columns.note.ID)
		page, err = t.client.api.Page.Update(x.in(ctx), notionapi.PageID(id), &notionapi.PageUpdateRequest{Properties: props})
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	written, err := t.read(c, page, &x)
	if err == nil && written.ID != id {
		err = anotherPage(written.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	if x.truncated[c.dependencies(page)] {
		written.DependsOn = t.recall(written.ID, written.DependsOn)
	}
	return x.reading(written), nil
}

// anotherPage is the error of an answer that shows another page than the one asked for.
func anotherPage(got, want task.ID) error {
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion answered with page %s where page %s was asked for", got, want)
}
