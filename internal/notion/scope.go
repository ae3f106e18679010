package notion

import (
	"slices"

	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// scoped returns the conditions of the scope that a filter of Notion's can say exactly. Rows are
// judged once they are read, so a condition may be left out.
func (c *codec) scoped() (all notionapi.AndCompoundFilter) {
	for _, f := range c.columns.fields {
		for _, want := range c.scope {
			if want.Field != f.Name || want.Value == "" {
				continue
			}
			if one, ok := says(f.Column, want.Value); ok {
				all = append(all, one)
			}
		}
	}
	return all
}

// says returns the filter for rows whose property has a value; false if Notion has none that means
// the same, see task.FieldMatches.
func says(col Column, value string) (notionapi.Filter, bool) {
	f := notionapi.PropertyFilter{Property: col.ID}
	var options []string // those that are meant
	for _, o := range col.Options {
		if task.FieldMatches(o, value) {
			options = append(options, o)
		}
	}
	if col.Type == typeCheckbox {
		is := task.FieldMatches(true, value)
		f.Checkbox = &notionapi.CheckboxFilterCondition{Equals: is, DoesNotEqual: !is}
		return f, is || task.FieldMatches(false, value)
	}
	if len(options) != 1 {
		return nil, false
	}
	option := col.inNotion(options[0])
	switch col.Type {
	case typeSelect:
		f.Select = &notionapi.SelectFilterCondition{Equals: option}
	case typeStatus:
		f.Status = &notionapi.StatusFilterCondition{Equals: option}
	case typeMultiSelect:
		f.MultiSelect = &notionapi.MultiSelectFilterCondition{Contains: option}
	default:
		return nil, false
	}
	return f, true
}

// inScope gives a draft the values that the scope asks for, except those of the protocol's own
// properties, and those that the draft sets otherwise.
func (p *drafting) inScope(d task.Draft) task.Draft {
	d.Fields = slices.Clone(d.Fields)
	for _, want := range p.codec.scope {
		i := slices.IndexFunc(p.codec.columns.fields, func(f field) bool { return f.Name == want.Field })
		if want.Value == "" || i < 0 {
			continue
		}
		col := p.codec.columns.fields[i].Column
		given := slices.ContainsFunc(d.Fields, func(f task.Field) bool {
			of, err := p.column(f.Name)
			return err == nil && of.ID == col.ID
		})
		switch {
		case col.ID == p.codec.columns.priority.ID && d.Priority == "":
			d.Priority = want.Value
		case !given && p.instead(col) == "" && writable[col.Type] != nil:
			d.Fields = append(d.Fields, task.Field{Name: col.Name, Values: []string{want.Value}})
		}
	}
	return d
}
