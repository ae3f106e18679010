package notion

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"dibs/internal/task"
)

// field is a further property whose values are read. One that the database lacks has no
// id, unless it was there before: then it is found by that when it comes back.
type field struct {
	Name   string // in the configuration
	Column Column
	// Gone is the id that a property had which the database lacks.
	Gone string `json:",omitempty"`
}

// valueless are the types of properties that have no value to show.
var valueless = []string{"button"}

// findFields finds the fields in a database: one that is known by its id, and if that
// fails by its name, like the others. It adds to the warnings what is amiss.
func (s TaskSchema) findFields(db Database, known []field, warnings []string) ([]field, []string) {
	var found []field
	for _, name := range s.Fields {
		f := field{Name: name}
		if i := slices.IndexFunc(known, func(k field) bool { return k.Name == name }); i >= 0 {
			f.Gone = cmp.Or(known[i].Column.ID, known[i].Gone)
		}
		for _, col := range db.Columns {
			if col.ID == f.Gone && f.Gone != "" {
				f.Column = col
			}
		}
		if f.Column.ID == "" {
			f.Column = db.Columns[name]
		}
		if f.Column.ID != "" {
			f.Gone = ""
		}
		if fit := f.fit(db); fit.Problem != "" {
			warnings = append(warnings, fit.said())
		}
		found = append(found, f)
	}
	return found, warnings
}

// fit says how a field fits its use, which is to be shown.
func (f field) fit(db Database) Fit {
	fit := Fit{Key: f.Name, Name: f.Name, Found: f.Column.Type, column: f.Column}
	switch {
	case f.Column.ID == "":
		fit.Grade = Poor
		fit.Problem = fmt.Sprintf("property %q of tasks.fields is missing", f.Name)
		fit.Remedy = "add it, or take it out of tasks.fields"
		if other, ok := db.Similar(f.Name); ok {
			fit.Similar = other.Name
			fit.Remedy += fmt.Sprintf(" (there is %q)", other.Name)
		}
		fit.Remedy += "; until then it is empty in every task"
	case slices.Contains(valueless, f.Column.Type), f.Column.Type == "":
		fit.Grade = Poor
		fit.Problem = fmt.Sprintf("property %q of tasks.fields is of type %s, which has no value that can be shown", f.Name, cmp.Or(f.Column.Type, "unknown"))
		fit.Remedy = "take it out of tasks.fields; until then it is empty in every task"
	}
	return fit
}

// ExamineFields says how each of the further properties fits. Their keys are the names in
// the configuration.
func (s TaskSchema) ExamineFields(db Database) []Fit {
	fields, _ := s.findFields(db, nil, nil)
	fits := make([]Fit, len(fields))
	for i, f := range fields {
		fits[i] = f.fit(db)
	}
	return fits
}

// fieldsOn returns the fields of a page, of what an answer said of it. If the page lacks
// one that the database should have, the schema is to be read again.
func (t *Tasks) fieldsOn(c *codec, page string, x *exchange) task.Fields {
	if len(c.columns.fields) == 0 {
		return nil
	}
	fields := make(task.Fields, len(c.columns.fields))
	for _, f := range c.columns.fields {
		value, there := x.values[page][f.Column.ID]
		if fields[f.Name] = value; !there && f.Column.ID != "" {
			t.miss(f.Column.ID)
		}
	}
	return fields
}

// miss takes note that a page lacks a field.
func (t *Tasks) miss(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missed[id] {
		return // the schema has been read since, and has it
	}
	if t.missed == nil {
		t.missed = make(map[string]bool)
	}
	t.missed[id] = true
	t.doubtful.Store(true)
}

// forgetMissed forgets the fields that the schema, read just now, does not have: should
// they come back and go again, that is to be noticed.
func (t *Tasks) forgetMissed(fields []field) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range fields {
		if f.Column.ID == "" {
			delete(t.missed, f.Gone)
		}
	}
}

// fieldIDs lists the ids of the fields that the database has.
func (c *codec) fieldIDs() []string {
	var ids []string
	for _, f := range c.columns.fields {
		if f.Column.ID != "" {
			ids = append(ids, f.Column.ID)
		}
	}
	return ids
}

// keepField keeps the value of a property of a page, if x asks for it.
func (x *exchange) keepField(page string, p *rawProperty) {
	if !slices.Contains(x.fields, p.ID) {
		return
	}
	if x.values == nil {
		x.values = make(map[string]map[string]any)
	}
	if x.values[page] == nil {
		x.values[page] = make(map[string]any, len(x.fields))
	}
	x.values[page][p.ID] = p.value()
}

// SetFields changes which further properties are read, and reads the schema with one
// request. What tasks show of them is known once they have been read again.
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
