package notion

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"dibs/internal/task"
)

// field is a further property whose values are read. If the database lacks it, it has no id, but
// Gone may have its former id, by which it is found when it comes back.
type field struct {
	Name   string // in the configuration
	Column Column
	// Gone is the former id of a missing property.
	Gone string `json:",omitempty"`
	// Must is set if the database has to have the property, because tasks.only names it.
	Must bool `json:",omitempty"`
}

// valueless lists types of properties without a value.
var valueless = []string{"button"}

// findFields finds the fields in a database: by their known ids, or else by name.
func (s TaskSchema) findFields(db Database, known []field) []field {
	var found []field
	for _, f := range s.fields() {
		if i := slices.IndexFunc(known, func(k field) bool { return k.Name == f.Name }); i >= 0 {
			f.Gone = cmp.Or(known[i].Column.ID, known[i].Gone)
		}
		for _, col := range db.Columns {
			if col.ID == f.Gone && f.Gone != "" {
				f.Column = col
			}
		}
		if f.Column.ID == "" {
			f.Column = db.Columns[f.Name]
		}
		if f.Column.ID != "" {
			f.Gone = ""
		}
		found = append(found, f)
	}
	return found
}

// fields lists the fields to show, and then those that only the scope needs.
func (s TaskSchema) fields() []field {
	var all []field
	for _, name := range s.Fields {
		all = append(all, field{Name: name, Must: slices.ContainsFunc(s.Only, func(c task.Condition) bool { return c.Field == name })})
	}
	for _, c := range s.Only {
		if !slices.ContainsFunc(all, func(f field) bool { return f.Name == c.Field }) {
			all = append(all, field{Name: c.Field, Must: true})
		}
	}
	return all
}

// fit says whether a field can be shown.
func (f field) fit(db Database) Fit {
	fit := Fit{Key: f.Name, Name: f.Name, Found: f.Column.Type, column: f.Column}
	grade, key, until := Poor, "tasks.fields", "; until then it is empty in every task"
	if f.Must {
		grade, key, until = Unusable, "tasks.only", ""
	}
	switch {
	case f.Column.ID == "":
		fit.Grade = grade
		fit.Problem = fmt.Sprintf("property %q of %s is missing", f.Name, key)
		fit.Remedy = "add it, or take it out of " + key
		if other, ok := db.Similar(f.Name); ok {
			fit.Similar = other.Name
			fit.Remedy += fmt.Sprintf(" (there is %q)", other.Name)
		}
		fit.Remedy += until
	case slices.Contains(valueless, f.Column.Type), f.Column.Type == "":
		fit.Grade = grade
		fit.Problem = fmt.Sprintf("property %q of %s is of type %s, which has no value that can be shown", f.Name, key, cmp.Or(f.Column.Type, "unknown"))
		fit.Remedy = "take it out of " + key + until
	}
	return fit
}

// ExamineFields returns the fit of each further property. Their keys are the names in the
// configuration.
func (s TaskSchema) ExamineFields(db Database) []Fit {
	fields := s.findFields(db, nil)
	fits := make([]Fit, len(fields))
	for i, f := range fields {
		fits[i] = f.fit(db)
	}
	return fits
}

// readFields reads the further properties of row from its page, and whether row is in the scope of
// agents. If the page lacks one that the database should have, the schema will be read again.
func (t *Tasks) readFields(c *codec, page *page, row *task.Task) {
	if len(c.columns.fields) == 0 {
		return
	}
	row.Fields = make(task.Fields, len(c.columns.fields))
	for _, f := range c.columns.fields {
		p := page.Properties[f.Column.ID]
		if p == nil {
			row.Fields[f.Name] = nil
			if f.Column.ID != "" {
				t.miss(f.Column.ID)
			}
			continue
		}
		row.Fields[f.Name] = p.value()
	}
	row.Outside = task.Filter{Where: c.scope}.Miss(*row, nil)
	for _, hidden := range c.hidden {
		if row.Scope == nil {
			row.Scope = make(task.Fields, len(c.hidden))
		}
		row.Scope[hidden] = row.Fields[hidden]
		delete(row.Fields, hidden)
	}
	if len(row.Fields) == 0 {
		row.Fields = nil
	}
}

// miss records that a page lacks a field.
func (t *Tasks) miss(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missed[id] {
		return // the schema was read since, and has it
	}
	if t.missed == nil {
		t.missed = make(map[string]bool)
	}
	t.missed[id] = true
	t.doubtful.Store(true)
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
