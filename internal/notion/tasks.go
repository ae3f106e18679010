package notion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
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
	long lately[relationKey, []task.ID]
	// headings are the titles of the pages that tasks relate to, by their ids.
	headings map[task.ID]heading
	// shown holds what recently read pages showed beside their tasks.
	shown lately[task.ID, basis]
	// skipped are the rows of queries that are no tasks.
	skipped []skippedRow
	// missed holds the ids of fields that a page lacked, each of which made the schema doubtful
	// once.
	missed map[string]bool
	// notes holds the notes of recently read pages.
	notes lately[task.ID, noteText]
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
	t := &Tasks{client: c, schema: schema, headings: make(map[task.ID]heading)}
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

// Holds reports whether these are the database and the data source of the tasks. Either may be
// empty: unknown.
func (t *Tasks) Holds(database, source task.ID) bool {
	c := t.codec.Load()
	if source != "" {
		return source == c.source
	}
	return database == c.database
}

// Broken says why nothing can be read or written at present, in one line. It returns nil if the
// database is whole, or if nothing has met the change yet that broke it.
func (t *Tasks) Broken() error {
	if err := t.broken.Load(); err != nil {
		return err
	}
	return nil
}

// mayHaveChanged reports whether the schema is to be read before the next query.
func (t *Tasks) mayHaveChanged() bool {
	return t.Broken() != nil || t.doubtful.Load() || t.isAnother()
}

// isAnother reports whether another data source was chosen than the one whose schema is known.
func (t *Tasks) isAnother() bool {
	c := t.codec.Load()
	used, _ := t.client.sources.of(c.database)
	return used.Source != c.source
}

// breaks records that the database is broken, and why. The caller has locked t.changing.
func (t *Tasks) breaks(why error) error {
	err := claim.Errorf(claim.Refused, claim.LandedNo, "%w; nothing is claimed until then", why)
	t.broken.Store(err)
	return err
}

// noted returns the error of a request like storeError, and records what it says about
// the schema.
func (t *Tasks) noted(err error) *claim.StoreError {
	failed := storeError(err)
	answered, ok := errors.AsType[*APIError](err)
	if lost(err) || ok && answered.Code == codeValidation && failed.Kind == claim.Refused {
		t.doubtful.Store(true)
	}
	return failed
}

// trashEvery is how often Notion is asked at most whether a page that is in the trash is there with
// the whole board.
const trashEvery = time.Minute

// buried is called when a page that is no more a task's makes it likely that the whole board is in
// the trash, by itself or with the page that it lies on. If so, the database is broken until it is
// restored, and the error says that.
func (t *Tasks) buried(ctx context.Context) error {
	last, now := t.asked.Load(), time.Now().UnixNano()
	since := now - last // negative if the clock was set back
	if last != 0 && since >= 0 && since < int64(trashEvery) || !t.asked.CompareAndSwap(last, now) {
		return t.Broken()
	}
	return t.check(ctx, true)
}

// Check reads the schema again, with one request, and uses it from then on. Names may have
// changed, and properties may have been made anew. If a property in use is missing, the database is
// broken, and the error says so. A data source that is gone may be shared again: no other one takes
// its place before a restart. Where the board was in the trash, Check looks there, too; of one
// data source it asks once in trashEvery.
func (t *Tasks) Check(ctx context.Context) error {
	trashed := errors.Is(t.Broken(), errTrashed)
	if trashed && !t.isAnother() {
		return t.buried(ctx)
	}
	return t.check(ctx, trashed)
}

// SetStatuses changes the database's names of the statuses, and reads the schema with one
// request before and one after. It is for renamed options. It fails, and changes nothing, if
// tasks can be claimed under the old names, or cannot be claimed under the new ones.
func (t *Tasks) SetStatuses(ctx context.Context, names map[task.Status]string) error {
	if t.Check(ctx) == nil {
		return errors.New("the names of the statuses cannot change while tasks can be claimed under the old ones: restart the daemon")
	}
	before := t.rename(names)
	err := t.Check(ctx)
	if err != nil {
		t.rename(before)
		_ = t.Check(ctx) // fails as before
	}
	return err
}

// rename sets the names of the statuses, and returns the former ones.
func (t *Tasks) rename(names map[task.Status]string) map[task.Status]string {
	t.changing.Lock()
	defer t.changing.Unlock()
	before := t.schema.Statuses
	t.schema.Statuses = names
	return before
}

// SetFields sets the further properties to read, and reads the schema with one request. Tasks show
// them once they have been read again.
func (t *Tasks) SetFields(ctx context.Context, names []string) error {
	t.changing.Lock()
	before := t.schema.Fields
	t.schema.Fields = names
	t.changing.Unlock()
	err := t.Check(ctx)
	if err != nil {
		t.changing.Lock()
		t.schema.Fields = before
		t.changing.Unlock()
	}
	return err
}

func (t *Tasks) check(ctx context.Context, above bool) error {
	ctx = transport.WithoutPermits(transport.InLaneUnlessChosen(ctx, transport.LaneSync))
	db, err := t.client.database(ctx, t.ID())
	if err == nil && above {
		err = t.client.above(ctx, t.ID(), db.Title)
	}
	if err != nil && !unclear(err) && !errors.Is(err, errTrashed) {
		return err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	if err != nil {
		return t.breaks(err)
	}
	next, err := t.schema.again(db, t.codec.Load().columns)
	if err != nil {
		return t.breaks(err)
	}
	t.use(next)
	t.all.Store(&db.Columns)
	t.forgetMissed(next.columns.fields)
	t.broken.Store(nil)
	t.doubtful.Store(false)
	return nil
}

// forgetMissed forgets missing fields that the new schema does not have either, so that they are
// noticed if they come back and go again.
func (t *Tasks) forgetMissed(fields []field) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range fields {
		if f.Column.ID == "" {
			delete(t.missed, f.Gone)
		}
	}
}

// again makes the codec for a database that had the columns before. Those that were missing then
// may still be missing; those in use must still be there.
func (s TaskSchema) again(db Database, before taskColumns) (*codec, error) {
	columns, warnings, err := s.find(db, before)
	found := s.byKey(&columns)
	var problems []string
	for _, w := range s.wants(&before) {
		switch is := found[w.key]; {
		case w.into.ID == "", forPeople(w.key) && is.ID == "":
			*is = Column{} // taken into use at the next start
		case is.ID == "" && w.without != "": // if it is empty, find has said so
			problems = append(problems, fmt.Sprintf("property %q of type %s is gone or of another type: restore it, or restart to go on without it",
				w.into.Name, w.into.Type))
		}
	}
	switch changes := strings.Join(problems, "; "); {
	case changes != "" && err != nil:
		return nil, fmt.Errorf("%w; %s", err, changes)
	case changes != "":
		return nil, fmt.Errorf("database %q has changed: %s", db.Title, changes)
	case err != nil:
		return nil, err
	}
	return newCodec(db, s, columns, warnings)
}

// keptColumn is a column as Known keeps it.
type keptColumn struct {
	// Name is the configured name. If another name is configured later, what is kept no longer
	// counts: another column may be meant.
	Name   string
	Column Column
}

// keptSchema is the content of Known.
type keptSchema struct {
	Database task.ID
	Title    Column
	Columns  map[string]keptColumn // by their keys in the configuration
	Fields   []field               `json:",omitempty"`
}

// Known returns what is known about the schema, for TaskSchema.Known in a later run.
func (t *Tasks) Known() string {
	c := t.codec.Load()
	columns := c.columns
	k := keptSchema{Database: c.database, Title: columns.title, Columns: make(map[string]keptColumn), Fields: columns.fields}
	t.changing.Lock()
	schema := t.schema
	t.changing.Unlock()
	for _, w := range schema.wants(&columns) {
		if w.into.ID != "" {
			k.Columns[w.key] = keptColumn{w.name, *w.into}
		}
	}
	data, err := json.Marshal(k)
	if err != nil {
		panic(err) // it is made of strings
	}
	return string(data)
}

// KnownDatabase returns the database that a result of Tasks.Known is about; empty if there is
// none.
func KnownDatabase(text string) task.ID {
	var k keptSchema
	if json.Unmarshal([]byte(text), &k) != nil {
		return ""
	}
	return k.Database
}

// recall returns the content of s.Known, and the columns in it that are configured now.
func (s TaskSchema) recall() (keptSchema, taskColumns) {
	var k keptSchema
	var columns taskColumns
	if json.Unmarshal([]byte(s.Known), &k) != nil {
		return keptSchema{}, columns
	}
	columns.title, columns.fields = k.Title, k.Fields
	for _, w := range s.wants(&columns) {
		if c, ok := k.Columns[w.key]; ok && c.Name == w.name {
			*w.into = c.Column
		}
	}
	return k, columns
}

// recalled returns the columns in s.Known that are configured now.
func (s TaskSchema) recalled() taskColumns {
	_, columns := s.recall()
	return columns
}

// RecallTasks opens a tasks database from schema.Known, and its data source from RecallSources,
// without a request. The schema is read before the first query.
func (c *Client) RecallTasks(databaseID string, schema TaskSchema) (*Tasks, error) {
	id, err := task.ParseID(databaseID)
	if err != nil {
		return nil, err
	}
	k, columns := schema.recall()
	used, _ := c.sources.of(id)
	if k.Database != id || used.Source == "" {
		return nil, errors.New("nothing is known of the tasks database from an earlier run")
	}
	db := Database{ID: id, Source: used.Source, Title: string(id), Columns: make(map[string]Column)}
	for _, col := range columns.inUse() {
		db.Columns[col.Name] = col
	}
	for _, f := range columns.fields {
		if f.Column.ID != "" {
			db.Columns[f.Column.Name] = f.Column
		}
	}
	columns, warnings, err := schema.find(db, columns)
	if err != nil {
		return nil, err
	}
	t, err := c.open(db, schema, columns, warnings)
	if err == nil {
		t.doubtful.Store(true)
	}
	return t, err
}

// errPartial is the error of a list whose pages show no properties.
func errPartial(rows []skippedRow) error {
	return claim.Errorf(claim.Refused, claim.LandedUnknown,
		"Notion shows no row of the tasks database with its properties (%d of them without): give the connection the capability to read content", len(rows))
}

// mostSkipped limits the skipped rows in a message.
const mostSkipped = 5

// skip records the skipped rows. A list of all rows has all of them; another list may have some
// more.
func (t *Tasks) skip(rows []skippedRow, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.skipped
	if all {
		t.skipped = nil
	}
	for _, row := range rows {
		if !slices.Contains(t.skipped, row) {
			t.skipped = append(t.skipped, row)
		}
		if !slices.Contains(before, row) && t.client.log != nil {
			t.client.log.Warn("a row of the tasks database is no task, and is skipped", "row", row.id, claim.AttrTitle, claim.Brief(row.title), claim.AttrReason, row.why)
		}
	}
}

// skippedRows describes the skipped rows, one line each.
func (t *Tasks) skippedRows() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i, row := range t.skipped {
		if i == mostSkipped {
			lines = append(lines, fmt.Sprintf("%d more rows of the tasks database are skipped", len(t.skipped)-i))
			break
		}
		lines = append(lines, "tasks database: "+row.String())
	}
	return lines
}
