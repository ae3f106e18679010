package notion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// lostError says that a property that is in use is not what it was.
type lostError struct{ column Column }

func (e *lostError) Error() string {
	return fmt.Sprintf("property %q of type %s is gone or of another type", e.column.Name, e.column.Type)
}

// Broken says why the database cannot be used at present; nil if it can. Of a
// change that nothing has come upon yet, it knows nothing.
func (t *Tasks) Broken() error {
	if err := t.broken.Load(); err != nil {
		return err
	}
	return nil
}

// noted sorts the error of a request, and remembers what it says of the schema.
func (t *Tasks) noted(err error) *claim.StoreError {
	failed := storeError(err)
	var lost *lostError
	var answered *APIError
	switch {
	case errors.As(err, &lost) && unclear(t.Broken()): // the page may be of another data source
	case errors.As(err, &lost):
		t.broken.Store(claim.Errorf(claim.Refused, claim.LandedNo,
			"the tasks database has changed: %w: restore it as it was; nothing is claimed until then", lost))
	case errors.As(err, &answered) && answered.Code == codeValidation && failed.Kind == claim.Refused:
		t.doubtful.Store(true)
	}
	return failed
}

// Check reads the schema again, with one request, and goes by it from then on:
// names may have changed, and properties may have been made anew. Those that were
// in use must all be there, or the database is broken, which the error says.
func (t *Tasks) Check(ctx context.Context) error {
	now := t.codec.Load()
	db, err := t.client.Database(usually(ctx, LaneSync), string(now.database))
	if err != nil && !unclear(err) {
		return err
	}
	next := now
	if err == nil {
		next, err = t.schema.again(db, now)
	}
	if err != nil {
		broken := claim.Errorf(claim.Refused, claim.LandedNo, "%w; nothing is claimed until then", err)
		t.broken.Store(broken)
		return broken
	}
	t.codec.Store(next)
	t.broken.Store(nil)
	t.doubtful.Store(false)
	return nil
}

// again is the codec for a database that was known before. What it could do
// without then, it still can; but what was in use then has to stay.
func (s TaskSchema) again(db Database, known *codec) (*codec, error) {
	was := known.columns
	columns, warnings, err := s.find(db, was)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*Column)
	for _, w := range s.wants(&columns) {
		found[w.key] = w.into
	}
	var problems []string
	for _, w := range s.wants(&was) {
		switch is := found[w.key]; {
		case w.into.ID == "":
			*is = Column{} // taken into use at the next start
		case is.ID == "":
			problems = append(problems, fmt.Sprintf("property %q of type %s is gone or of another type: restore it, or restart to go on without it",
				w.into.Name, w.into.Type))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("database %q has changed: %s", db.Title, strings.Join(problems, "; "))
	}
	next, err := newCodec(db.ID, s, columns)
	if err != nil {
		return nil, err
	}
	next.warnings = warnings
	return next, nil
}

// kept is a column as Known keeps it.
type kept struct {
	// Name is the configured name. A column is known by its id only while that
	// name is meant for it.
	Name   string
	Column Column
}

// known is what Known keeps.
type known struct {
	Database task.ID
	// Wanted is what was said of the data source that is meant, and Source which one
	// that is; empty if nothing was said.
	Wanted  string  `json:",omitempty"`
	Source  task.ID `json:",omitempty"`
	Title   Column
	Columns map[string]kept // by their keys in the configuration
}

// Known returns what there is to know of the schema, to be given to a later run
// in TaskSchema.Known.
func (t *Tasks) Known() string {
	c := t.codec.Load()
	columns := c.columns
	said := t.client.sources.choice(c.database)
	k := known{Database: c.database, Wanted: said.wanted, Source: said.source, Title: columns.title, Columns: make(map[string]kept)}
	for _, w := range t.schema.wants(&columns) {
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

// recall returns what Known says of the properties that are configured now.
func (s TaskSchema) recall() (known, taskColumns) {
	var k known
	var columns taskColumns
	if json.Unmarshal([]byte(s.Known), &k) != nil {
		return known{}, columns
	}
	columns.title = k.Title
	for _, w := range s.wants(&columns) {
		if c, ok := k.Columns[w.key]; ok && c.Name == w.name {
			*w.into = c.Column
		}
	}
	return k, columns
}

// recalled returns the columns that are known.
func (s TaskSchema) recalled() taskColumns {
	_, columns := s.recall()
	return columns
}

// RecallTasks opens a tasks database by what is known of it, without a request.
// The schema is read before the first query.
func (c *Client) RecallTasks(databaseID string, schema TaskSchema) (*Tasks, error) {
	id, err := task.ParseID(databaseID)
	if err != nil {
		return nil, err
	}
	k, columns := schema.recall()
	if k.Database != id || k.Wanted != c.sources.choice(id).wanted {
		return nil, errors.New("nothing is known of the tasks database")
	}
	db := Database{ID: id, Title: string(id), Columns: make(map[string]Column)}
	for _, col := range columns.inUse() {
		db.Columns[col.Name] = col
	}
	columns, warnings, err := schema.find(db, columns)
	if err != nil {
		return nil, err
	}
	t, err := c.open(id, schema, columns, warnings)
	if err == nil {
		if k.Source != "" {
			c.sources.found(id, k.Wanted, k.Source)
		}
		t.doubtful.Store(true)
	}
	return t, err
}
