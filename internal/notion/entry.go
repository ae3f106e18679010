package notion

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Entry is an entry of a log. Its id finds it again.
type Entry struct {
	ID     string
	Title  string
	Fields []Field
}

// Field is one thing that an entry says. Its value is a task.ID, a time.Time, a
// []string, or of a type whose kind is string, bool, int or float64; a blank text,
// an empty list and the zero time say nothing and are left out.
//
// A field goes into the property of its name, where case, spaces, "_" and "-" do
// not matter, if that is of a type that can hold the value; else it becomes a line
// of the entry's text. A task.ID named "task_id" also goes into a relation "task".
type Field struct {
	Name  string
	Value any
}

// entryIDColumn is the folded name of the property that holds an entry's id.
const entryIDColumn = "entryid"

// layout says where things go in a log database.
type layout struct {
	title   column
	entryID column            // without an id if the database has none
	columns map[string]column // the others, by folded name
	tasks   task.ID           // what a relation must relate to
}

func newLayout(columns map[string]column, tasks task.ID) layout {
	l := layout{columns: make(map[string]column), tasks: tasks}
	// Of several properties whose names fold to the same, the first is used.
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		col := columns[name]
		_, taken := l.columns[fold(name)]
		switch {
		case col.Type == typeTitle:
			l.title = col
		case fold(name) == entryIDColumn && col.Type == typeRichText:
			l.entryID = col
		case !taken:
			l.columns[fold(name)] = col
		}
	}
	return l
}

// find is the filter that finds an entry.
func (l layout) find(entryID string) notionapi.Filter {
	if l.entryID.ID != "" {
		return notionapi.PropertyFilter{
			Property: l.entryID.ID, RichText: &notionapi.TextFilterCondition{Equals: entryID},
		}
	}
	return titleFilter{Property: l.title.ID, Title: notionapi.TextFilterCondition{Contains: entryID}}
}

// titleFilter is a filter that the library lacks.
type titleFilter struct {
	notionapi.Filter `json:"-"`

	Property string                        `json:"property"`
	Title    notionapi.TextFilterCondition `json:"title"`
}

// page lays an entry out.
func (l layout) page(e Entry) *notionapi.PageCreateRequest {
	texts := new(spanWriter)
	title := e.Title
	props := make(notionapi.Properties)
	if l.entryID.ID != "" {
		props[l.entryID.ID] = value{notionapi.PropertyTypeRichText, texts.write(e.ID)}
	} else {
		// The id must not be cut off.
		suffix := " [" + e.ID + "]"
		title = title[:prefix(title, spanLimit-len(suffix))] + suffix
	}
	props[l.title.ID] = value{notionapi.PropertyTypeTitle, texts.write(title)}

	var lines []string
	for _, f := range e.Fields {
		f.Value = plainValue(f.Value)
		said := f.text()
		if said == "" {
			continue
		}
		col := l.columnOf(f)
		if content, ok := l.content(col, f.Value, said, texts); ok && props[col.ID] == nil {
			props[col.ID] = value{notionapi.PropertyType(col.Type), content}
			continue
		}
		lines = append(lines, f.Name+": "+said)
	}
	request := &notionapi.PageCreateRequest{Properties: props}
	if len(lines) > 0 {
		request.Children = []notionapi.Block{paragraph(texts.write(strings.Join(lines, "\n")))}
	}
	return request
}

func paragraph(spans []notionapi.RichText) notionapi.Block {
	return &notionapi.ParagraphBlock{
		BasicBlock: notionapi.BasicBlock{Object: notionapi.ObjectTypeBlock, Type: notionapi.BlockTypeParagraph},
		Paragraph:  notionapi.Paragraph{RichText: spans},
	}
}

// plainValue makes values of named types ones of the types they are made of.
func plainValue(v any) any {
	if _, ok := v.(task.ID); ok {
		return v
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		return strings.TrimSpace(r.String())
	case reflect.Bool:
		return r.Bool()
	case reflect.Int:
		return int(r.Int())
	case reflect.Float64:
		return r.Float()
	default:
		return v
	}
}

// text is the value as a text, empty if it says nothing.
func (f Field) text() string {
	switch v := f.Value.(type) {
	case string:
		return v
	case task.ID:
		return string(v)
	case []string:
		return strings.Join(v, ", ")
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return stamp(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// columnOf returns the property that a field goes into; one without an id if there
// is none.
func (l layout) columnOf(f Field) column {
	name := fold(f.Name)
	col, ok := l.columns[name]
	if _, isTask := f.Value.(task.ID); !ok && isTask {
		if to := l.columns[strings.TrimSuffix(name, "id")]; to.Type == typeRelation {
			return to
		}
	}
	return col
}

// content is what stands beside the type in a property's value, and false if the
// property cannot hold it.
func (l layout) content(col column, v any, said string, texts *spanWriter) (any, bool) {
	switch notionapi.PropertyType(col.Type) {
	case notionapi.PropertyTypeRichText:
		return texts.write(said), true
	case notionapi.PropertyTypeSelect:
		return optionContent(v)
	case notionapi.PropertyTypeMultiSelect:
		return optionsContent(v)
	case notionapi.PropertyTypeStatus:
		// A status takes the options that it has.
		for _, name := range col.Options {
			if strings.EqualFold(name, said) {
				return named{name}, true
			}
		}
	case notionapi.PropertyTypeDate:
		if t, ok := v.(time.Time); ok {
			return rawDate{stamp(t)}, true
		}
	case notionapi.PropertyTypeNumber:
		return numberContent(v)
	case notionapi.PropertyTypeCheckbox:
		b, ok := v.(bool)
		return b, ok
	case notionapi.PropertyTypeURL:
		s, _ := v.(string)
		u, err := url.Parse(s)
		return s, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && prefix(s, spanLimit) == len(s)
	case notionapi.PropertyTypeRelation:
		id, ok := v.(task.ID)
		if to, err := task.ParseID(col.Database); ok && err == nil && to == l.tasks {
			return []pageRef{{string(id)}}, true
		}
	}
	return nil, false
}

func numberContent(v any) (any, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return nil, false
}

// optionLimit is how long the name of an option may be, in UTF-16 code units.
const optionLimit = 100

func optionContent(v any) (any, bool) {
	s, ok := v.(string)
	return named{optionName(s)}, ok && prefix(s, optionLimit) == len(s)
}

func optionsContent(v any) (any, bool) {
	list, ok := v.([]string)
	if s, one := v.(string); one {
		list, ok = []string{s}, true
	}
	if !ok || len(list) > 100 {
		return nil, false
	}
	options := []named{}
	for _, s := range list {
		if prefix(s, optionLimit) != len(s) {
			return nil, false
		}
		if name := optionName(s); name != "" {
			options = append(options, named{name})
		}
	}
	return options, true
}

// optionName writes s in one line and without commas, which Notion takes for
// separators and refuses.
func optionName(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), ",", ";")
}
