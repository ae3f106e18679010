package notion

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// layout maps the fields of an entry to the properties of a log database. A field goes into a
// property that has one of its names and can store the value. Case, spaces, "_" and "-" in names do
// not matter. A field without a property becomes a line of the page's text.
type layout struct {
	title   Column
	entryID Column            // without an id if the database has none
	columns map[string]Column // the others, by folded name
	source  task.ID           // the log's own
	tasks   task.ID           // the data source to which a relation must relate
}

func newLayout(db Database, tasks task.ID) layout {
	l := layout{columns: make(map[string]Column), source: db.Source, tasks: tasks}
	// Of several properties whose folded names are equal, the first is used.
	for _, name := range slices.Sorted(maps.Keys(db.Columns)) {
		col, folded := db.Columns[name], fold(name)
		switch _, taken := l.columns[folded]; {
		case col.Type == typeTitle:
			l.title = col
		case folded == fold(wording.EntryID) && col.Type == typeRichText && l.entryID.ID == "":
			l.entryID = col
		case !taken:
			l.columns[folded] = col
		}
	}
	return l
}

// page converts an entry to a page. Without a property for entry ids, the title ends in the id.
func (l layout) page(e wording.Entry) *notionapi.PageCreateRequest {
	texts := new(spanWriter)
	title := e.Title
	props := make(notionapi.Properties)
	if l.entryID.ID != "" {
		props[l.entryID.ID] = value{notionapi.PropertyTypeRichText, texts.write(e.ID)}
	} else {
		suffix := " [" + e.ID + "]"
		title = title[:prefix(title, spanLimit-len(suffix))] + suffix
	}
	props[l.title.ID] = value{notionapi.PropertyTypeTitle, texts.write(title)}

	in := l.fill(e, props, texts)
	var lines []string
	for i, f := range e.Fields {
		if in[i].ID == "" && !l.said(f) {
			lines = append(lines, f.Name+": "+asText(f.Value))
		}
	}
	request := &notionapi.PageCreateRequest{Properties: props}
	if len(lines) > 0 {
		request.Children = []notionapi.Block{paragraph(texts.write(strings.Join(lines, "\n")))}
	}
	return request
}

// said reports whether a field needs no property: it is empty, or is the id, which has its own.
func (l layout) said(f wording.Field) bool {
	return asText(f.Value) == "" || f.Name == wording.EntryID && l.entryID.ID != ""
}

// fill puts the fields of an entry into properties. It returns the property of each field; one
// without an id means none.
func (l layout) fill(e wording.Entry, props notionapi.Properties, texts *spanWriter) []Column {
	in := make([]Column, len(e.Fields))
	place := func(i int, names ...string) {
		for _, name := range names {
			col := l.columns[fold(name)]
			if in[i].ID != "" || col.ID == "" || props[col.ID] != nil || l.said(e.Fields[i]) {
				continue
			}
			if content, ok := l.content(col, e.Fields[i].Value, texts); ok {
				in[i] = col
				props[col.ID] = value{notionapi.PropertyType(col.Type), content}
			}
		}
	}
	for i, f := range e.Fields {
		place(i, f.Name)
	}
	for i, f := range e.Fields {
		place(i, f.Aliases...)
		if isPage(f.Value) { // a "task_id" may fill a relation "task", beside a text
			l.relate(f, &in[i], props)
		}
	}
	return in
}

// relate puts the page of a field such as "task_id" into a relation of the name without "id", if
// there is one. in is the field's property so far.
func (l layout) relate(f wording.Field, in *Column, props notionapi.Properties) {
	col := l.columns[strings.TrimSuffix(fold(f.Name), "id")]
	if col.Type != typeRelation || props[col.ID] != nil {
		return
	}
	if content, ok := l.content(col, f.Value, nil); ok {
		props[col.ID] = value{notionapi.PropertyTypeRelation, content}
		if in.ID == "" {
			*in = col
		}
	}
}

// ExamineLog says how the properties of a log fit each field of an entry. What fits none goes into
// the page's text. tasks is the data source of the tasks, to which a relation must relate.
func (db Database) ExamineLog(e wording.Entry, tasks task.ID) []Fit {
	l := newLayout(db, tasks)
	fits := make([]Fit, len(e.Fields))
	for i, col := range l.fill(e, make(notionapi.Properties), new(spanWriter)) {
		f := Fit{Key: e.Fields[i].Name, Name: col.Name, Found: col.Type}
		switch other, similar := db.Similar(f.Key); {
		case f.Key == wording.EntryID && l.entryID.ID != "":
			f.Name, f.Found = l.entryID.Name, l.entryID.Type
		case col.ID == "" && similar:
			f.Grade, f.Remedy = Poor, "change its type, or rename it"
			f.Problem = fmt.Sprintf("property %q is of type %s, which cannot hold %s: it goes into the text of the page", other.Name, cmp.Or(other.Type, "unknown"), f.Key)
		case col.ID == "":
			f.Grade = Spare
		}
		fits[i] = f
	}
	return fits
}

func paragraph(spans []notionapi.RichText) notionapi.Block {
	return &notionapi.ParagraphBlock{
		BasicBlock: notionapi.BasicBlock{Object: notionapi.ObjectTypeBlock, Type: notionapi.BlockTypeParagraph},
		Paragraph:  notionapi.Paragraph{RichText: spans},
	}
}

// asText returns a value as text; empty if there is nothing to say.
func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return stamp(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// isPage reports whether a value is the id of a page.
func isPage(v any) bool {
	s, ok := v.(string)
	_, err := task.ParseID(s)
	return ok && err == nil
}

// content returns a property's value without its type. ok is false if the property cannot store it.
func (l layout) content(col Column, v any, texts *spanWriter) (content any, ok bool) {
	said := asText(v)
	switch notionapi.PropertyType(col.Type) {
	case notionapi.PropertyTypeRichText:
		return texts.write(said), true
	case notionapi.PropertyTypeSelect:
		name := optionName(said)
		_, isString := v.(string)
		return named{name}, isString && fits(name, optionLimit)
	case notionapi.PropertyTypeMultiSelect:
		return optionsOf(v)
	case notionapi.PropertyTypeStatus: // a status cannot get new options this way
		i := slices.IndexFunc(col.Options, func(name string) bool { return strings.EqualFold(name, said) })
		if i >= 0 {
			return named{col.Options[i]}, true
		}
	case notionapi.PropertyTypeDate:
		if t, ok := v.(time.Time); ok {
			return rawDate{Start: stamp(t)}, true
		}
	case notionapi.PropertyTypeNumber:
		switch n := v.(type) {
		case int:
			return n, true
		case float64:
			return n, !math.IsNaN(n) && !math.IsInf(n, 0)
		}
	case notionapi.PropertyTypeCheckbox:
		b, ok := v.(bool)
		return b, ok
	case notionapi.PropertyTypeURL:
		u, err := url.Parse(said)
		return said, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && fits(said, spanLimit)
	case notionapi.PropertyTypeRelation:
		if isPage(v) && col.Source != "" && col.Source == l.tasks {
			return []pageRef{{said}}, true
		}
	}
	return nil, false
}

// The limits of options.
const (
	optionLimit  = 100 // UTF-16 code units in a name
	optionsLimit = 100 // options in a value
)

// optionsOf splits a text into options, at commas or semicolons.
func optionsOf(v any) (any, bool) {
	s, ok := v.(string)
	var options []named
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ';' }) {
		if name := optionName(part); name != "" && !slices.Contains(options, named{name}) {
			options = append(options, named{name})
			ok = ok && fits(name, optionLimit)
		}
	}
	return options, ok && len(options) > 0 && len(options) <= optionsLimit
}

// optionName puts s into one line without commas, which Notion refuses in a name.
func optionName(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), ",", ";")
}

// fits reports whether s has at most n UTF-16 code units.
func fits(s string, n int) bool { return prefix(s, n) == len(s) }
