package emulator

import (
	"encoding/json"
	"strings"
	"time"
)

// Page is a copy of a page at one moment, for tests.
type Page struct {
	ID       string
	Database string // the id of its database, if it is a row
	Trashed  bool
	Archived bool
	Created  time.Time // exact, not cut to the minute
	Edited   time.Time

	// properties are JSON as in an answer of the API, with all related pages.
	properties map[string]string
	title      string
	body       []string
}

// Title returns the page's title.
func (p Page) Title() string { return p.title }

// Body returns the plain text of the page's content, a line for each block.
func (p Page) Body() string { return strings.Join(p.body, "\n") }

// Value returns the JSON under the key of the property's type, decoded: nil for a property that is
// empty or does not exist.
func (p Page) Value(name string) any {
	data, ok := p.properties[name]
	if !ok {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		panic(err) // compact writes valid JSON
	}
	kind, _ := m["type"].(string)
	return m[kind]
}

// Text returns a property as a person reads it, whether text, an option, or people and options
// separated by commas; "" if it is empty.
func (p Page) Text(name string) string {
	switch v := p.Value(name).(type) {
	case string:
		return v
	case map[string]any:
		return p.Select(name)
	case []any:
		var text strings.Builder
		var names []string
		for _, e := range v {
			m, _ := e.(map[string]any)
			if s, ok := m["plain_text"].(string); ok {
				text.WriteString(s)
			} else if s, ok := m["name"].(string); ok {
				names = append(names, s)
			}
		}
		return text.String() + strings.Join(names, ", ")
	}
	return ""
}

// Select returns the option of a select or status property, "" if none is chosen.
func (p Page) Select(name string) string { return p.member(name, "name") }

// Date returns the start of a date property as the API shows it, "" if it is empty.
func (p Page) Date(name string) string { return p.member(name, "start") }

func (p Page) member(name, key string) string {
	m, _ := p.Value(name).(map[string]any)
	s, _ := m[key].(string)
	return s
}

// Number returns a number or unique_id property, 0 if it is empty; Value tells empty from zero.
func (p Page) Number(name string) float64 {
	switch v := p.Value(name).(type) {
	case float64:
		return v
	case map[string]any:
		f, _ := v["number"].(float64)
		return f
	}
	return 0
}

// Relation returns the ids of all pages in a relation property.
func (p Page) Relation(name string) []string {
	var ids []string
	v, _ := p.Value(name).([]any)
	for _, e := range v {
		m, _ := e.(map[string]any)
		if id, ok := m["id"].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
