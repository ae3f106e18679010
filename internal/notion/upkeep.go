package notion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// Broken says why nothing can be claimed at present. It returns nil if tasks can be
// claimed, or if nothing has met the change yet that broke the database.
func (t *Tasks) Broken() error {
	if b := t.broken.Load(); b != nil {
		return b.err
	}
	return nil
}

// noted returns the error of a request like storeError, and records what it says about
// the schema.
func (t *Tasks) noted(err error) *claim.StoreError {
	failed := storeError(err)
	if gone, ok := errors.AsType[*lostError](err); ok {
		t.lose(gone)
	} else if answered, ok := errors.AsType[*APIError](err); ok && answered.Code == codeValidation && failed.Kind == claim.Refused {
		t.doubtful.Store(true)
	}
	return failed
}

// Check reads the schema again, with one request, and uses it from then on. Names may have
// changed, and properties may have been made anew. If a property in use is missing, the
// database is broken, see Broken. The error says why tasks cannot be read.
func (t *Tasks) Check(ctx context.Context) error {
	now := t.codec.Load()
	db, err := t.client.Database(transport.InLaneUnlessChosen(ctx, transport.LaneSync), string(now.database))
	if err != nil && !unclear(err) {
		return err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	if err != nil {
		return t.breaks(err, breakage{workable: t.codec.Load().workable()})
	}
	before := t.codec.Load()
	status := t.schema.statusOf(db, before.known.status)
	lostProgress := t.schema.lostProgress(status)
	if lostProgress || t.schema.remade(before.known.status, status) {
		t.setRemade()
	}
	next, err := t.schema.again(db, before)
	if err != nil {
		reads := cmp.Or(next, before)
		broken := t.breaks(err, breakage{workable: status.ID != "" && status.Type == before.known.status.Type && !lostProgress && reads.workable(), lostProgress: lostProgress})
		if next == nil {
			return broken
		}
	}
	t.use(next)
	t.all.Store(&db.Columns)
	t.forgetMissed(next.columns.fields)
	if err == nil {
		t.broken.Store(nil)
	}
	t.doubtful.Store(false)
	return nil
}

// again makes the codec for a database that was known before. Properties that were missing then
// may still be missing; those in use must still be there. If one is not, again returns an
// error, and a codec that reads pages without it; nil if such pages cannot be read.
func (s TaskSchema) again(db Database, before *codec) (*codec, error) {
	was := before.known
	columns, warnings, err := s.find(db, was)
	known := columns
	merged, found := s.byKey(&known), s.byKey(&columns)
	var problems []string
	for _, w := range s.wants(&was) {
		switch is := found[w.key]; {
		case w.into.ID == "", forPeople(w.key) && is.ID == "":
			*is, *merged[w.key] = Column{}, Column{} // taken into use at the next start
		case is.ID == "":
			*merged[w.key] = *w.into
			if w.without != "" { // if it is empty, find has said so
				problems = append(problems, fmt.Sprintf("property %q of type %s is gone or of another type: restore it, or restart to go on without it",
					w.into.Name, w.into.Type))
			}
		}
	}
	switch said := strings.Join(problems, "; "); {
	case said == "":
	case err != nil:
		err = fmt.Errorf("%w; %s", err, said)
	default:
		err, warnings = fmt.Errorf("database %q has changed: %s", db.Title, said), before.warnings
	}
	if err != nil && (!columns.readable() || !s.shows(columns.status)) {
		return nil, err
	}
	next, nerr := newCodec(db.ID, s, columns)
	if nerr != nil {
		return nil, nerr
	}
	next.known, next.warnings = known, warnings
	return next, err
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
	// Wanted is the given name or id of the data source, and Source is its id. Both are empty
	// if none was given.
	Wanted string  `json:",omitempty"`
	Source task.ID `json:",omitempty"`
	// Alone is set if the database had no other data source.
	Alone   bool `json:",omitempty"`
	Title   Column
	Columns map[string]kept // by their keys in the configuration
	Fields  []field         `json:",omitempty"`
}

// Known returns what is known about the schema, for TaskSchema.Known in a later run.
func (t *Tasks) Known() string {
	c := t.codec.Load()
	columns := c.known
	said := t.client.sources.choice(c.database)
	k := known{Database: c.database, Wanted: said.wanted, Source: said.source, Alone: said.alone, Title: columns.title, Columns: make(map[string]kept), Fields: columns.fields}
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

// RecallTasks opens a tasks database from schema.Known, without a request. The schema is read
// before the first query.
func (c *Client) RecallTasks(databaseID string, schema TaskSchema) (*Tasks, error) {
	id, err := task.ParseID(databaseID)
	if err != nil {
		return nil, err
	}
	k, columns := schema.recall()
	if k.Database != id || k.Wanted != c.sources.choice(id).wanted {
		return nil, errors.New("nothing is known of the tasks database from an earlier run")
	}
	db := Database{ID: id, Title: string(id), Columns: make(map[string]Column)}
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
	t, err := c.open(id, schema, columns, warnings)
	if err == nil {
		if k.Source != "" {
			c.sources.found(id, choice{wanted: k.Wanted, source: k.Source, alone: k.Alone})
		}
		t.doubtful.Store(true)
	}
	return t, err
}
