package notion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

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
	switch said := strings.Join(problems, "; "); {
	case said != "" && err != nil:
		return nil, fmt.Errorf("%w; %s", err, said)
	case said != "":
		return nil, fmt.Errorf("database %q has changed: %s", db.Title, said)
	case err != nil:
		return nil, err
	}
	return newCodec(db, s, columns, warnings)
}

// kept is a column as Known keeps it.
type kept struct {
	// Name is the configured name. If another name is configured later, what is kept no longer
	// counts: another column may be meant.
	Name   string
	Column Column
}

// known is the content of Known.
type known struct {
	Database task.ID
	Title    Column
	Columns  map[string]kept // by their keys in the configuration
	Fields   []field         `json:",omitempty"`
}

// Known returns what is known about the schema, for TaskSchema.Known in a later run.
func (t *Tasks) Known() string {
	c := t.codec.Load()
	columns := c.columns
	k := known{Database: c.database, Title: columns.title, Columns: make(map[string]kept), Fields: columns.fields}
	t.changing.Lock()
	schema := t.schema
	t.changing.Unlock()
	for _, w := range schema.wants(&columns) {
		if w.into.ID != "" {
			k.Columns[w.key] = kept{w.name, *w.into}
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
	var k known
	if json.Unmarshal([]byte(text), &k) != nil {
		return ""
	}
	return k.Database
}

// recall returns the content of s.Known, and the columns in it that are configured now.
func (s TaskSchema) recall() (known, taskColumns) {
	var k known
	var columns taskColumns
	if json.Unmarshal([]byte(s.Known), &k) != nil {
		return known{}, columns
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
