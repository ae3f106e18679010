package notion

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf16"

	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// The property types that something depends on.
const (
	typeTitle    = "title"
	typeRichText = "rich_text"
	typeNumber   = "number"
	typeSelect   = "select"
	typeStatus   = "status"
	typeDate     = "date"
	typePeople   = "people"
	typeRelation = "relation"
	typeUniqueID = "unique_id"
	typeFormula  = "formula"

	typeCheckbox    = "checkbox"
	typeMultiSelect = "multi_select"
)

// property is a property of a page, with the value of its own type only.
type property struct {
	ID   string `json:"id"`
	Type string `json:"type"`

	Title    []span    `json:"title"`
	RichText []span    `json:"rich_text"`
	Number   *float64  `json:"number"`
	Checkbox *bool     `json:"checkbox"`
	Select   *named    `json:"select"`
	Status   *named    `json:"status"`
	Date     *rawDate  `json:"date"`
	People   []person  `json:"people"`
	Relation []pageRef `json:"relation"`
	// HasMore is set if the relation is shown incompletely.
	HasMore  bool      `json:"has_more"`
	UniqueID *uniqueID `json:"unique_id"`

	URL         *string `json:"url"`
	Email       *string `json:"email"`
	Phone       *string `json:"phone_number"`
	MultiSelect []named `json:"multi_select"`
	Files       []named `json:"files"`
	CreatedTime *string `json:"created_time"`
	EditedTime  *string `json:"last_edited_time"`
	CreatedBy   *person `json:"created_by"`
	EditedBy    *person `json:"last_edited_by"`
	Place       *named  `json:"place"`
	Verified    *struct {
		State string `json:"state"`
	} `json:"verification"`
	// The value of a formula or a rollup stands under its own type.
	Formula *struct {
		Type    string   `json:"type"`
		String  *string  `json:"string"`
		Number  *float64 `json:"number"`
		Boolean *bool    `json:"boolean"`
		Date    *rawDate `json:"date"`
	} `json:"formula"`
	Rollup *struct {
		Type   string     `json:"type"`
		Number *float64   `json:"number"`
		Date   *rawDate   `json:"date"`
		Array  []property `json:"array"`
	} `json:"rollup"`
}

type (
	span struct {
		PlainText string `json:"plain_text"`
	}
	named struct {
		Name string `json:"name"`
	}
	rawDate struct {
		Start string `json:"start"`
		End   string `json:"end,omitempty"`
	}
	person struct {
		ID   string `json:"id"`
		Name string `json:"name,omitempty"`
	}
	pageRef struct {
		ID string `json:"id"`
	}
	uniqueID struct {
		Prefix *string  `json:"prefix"`
		Number *float64 `json:"number"`
	}
)

// UnmarshalJSON implements json.Unmarshaler. A property of an unknown form keeps its id and its type
// if nothing in the protocol depends on such a type; otherwise it counts as missing. So the rest of
// the page can be read.
func (p *property) UnmarshalJSON(data []byte) error {
	type fields property
	err := json.Unmarshal(data, (*fields)(p))
	if err == nil && (p.Type != typeCheckbox || p.Checkbox != nil) {
		return nil
	}
	var known struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	_ = json.Unmarshal(data, &known)
	*p = property{}
	switch known.Type {
	case typeTitle, typeRichText, typeNumber, typeCheckbox, typeSelect, typeStatus, typeDate, typePeople, typeRelation, typeUniqueID:
	default:
		p.ID, p.Type = known.ID, known.Type
	}
	return nil
}

// properties are the properties of a page, by id. It is nil if the page is shown without them.
type properties map[string]*property

// UnmarshalJSON implements json.Unmarshaler.
func (ps *properties) UnmarshalJSON(data []byte) error {
	var named map[string]*property
	if err := json.Unmarshal(data, &named); err != nil {
		return err
	}
	*ps = make(properties, len(named))
	for _, p := range named {
		if p != nil && p.ID != "" {
			(*ps)[p.ID] = p
		}
	}
	return nil
}

// rawTitle is the title of a database; empty if it is of another form.
type rawTitle []span

// UnmarshalJSON implements json.Unmarshaler.
func (t *rawTitle) UnmarshalJSON(data []byte) error {
	var spans []span
	if json.Unmarshal(data, &spans) == nil {
		*t = spans
	}
	return nil
}

// text returns the text of a title or a text, or the name of an option; empty for any other
// property, and for a missing one.
func (p *property) text() string {
	switch {
	case p == nil:
		return ""
	case p.Type == typeTitle:
		return plainText(p.Title)
	case p.Type == typeRichText:
		return plainText(p.RichText)
	case p.Type == typeSelect && p.Select != nil:
		return task.Name(p.Select.Name)
	case p.Type == typeStatus && p.Status != nil:
		return task.Name(p.Status.Name)
	}
	return ""
}

// mostLines is how many lines are read of a property, and longestLine how much of one, in bytes.
// Both are beyond what package reserve takes for patterns, so what is cut is not taken.
const mostLines, longestLine = 40, 600

// lines returns the lines of a text that are not empty, or the options of a multi-select.
func (p *property) lines() (lines []string) {
	text := p.text()
	if p != nil && p.Type == typeMultiSelect {
		for _, option := range p.MultiSelect {
			text += option.Name + "\n"
		}
	}
	for line := range strings.Lines(task.Plain(text)) {
		if line = strings.TrimSpace(line); line != "" && len(lines) < mostLines {
			lines = append(lines, line[:prefix(line, longestLine)])
		}
	}
	return lines
}

func plainText(spans []span) string {
	if len(spans) == 1 {
		return spans[0].PlainText
	}
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.PlainText)
	}
	return b.String()
}

// ticked reads a checkbox.
func (p *property) ticked() bool { return p != nil && p.Checkbox != nil && *p.Checkbox }

// lastOfDay is from the beginning of a day, by UTC, to its last minute twelve hours west of there.
const lastOfDay = 23*time.Hour + 59*time.Minute + 12*time.Hour

// moment reads a date as a moment, in UTC; zero if there is none.
//
//   - A date without a time becomes the last moment at which it is that day anywhere on
//     Earth. So a lease that began on it is never thought older than it may be.
//   - A time without an offset is UTC.
//   - An invalid date is ignored. Beside a name, that makes an assignment, which nobody
//     overrides.
func (p *property) moment() time.Time {
	if p == nil || p.Date == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, p.Date.Start)
	if err != nil {
		if at, err = time.Parse(time.DateOnly, p.Date.Start); err == nil {
			at = at.Add(lastOfDay)
		} else if at, err = time.Parse(time.RFC3339, p.Date.Start+"Z"); err != nil {
			return time.Time{}
		}
	}
	return at.UTC()
}

// longestTimeout is the longest lease of a task. A longer one is taken for a mistake.
const longestTimeout = 365 * 24 * time.Hour

// lease reads a lease's length in minutes. An impossible number is ignored.
func (p *property) lease() time.Duration {
	if p == nil || p.Number == nil || !(*p.Number > 0) || *p.Number > longestTimeout.Minutes() {
		return 0
	}
	return time.Duration(*p.Number * float64(time.Minute))
}

// key reads a unique id. Without a valid prefix there is no key.
func (p *property) key() string {
	if p == nil {
		return ""
	}
	key, _ := task.ParseKey(p.UniqueID.text())
	return key
}

// related reads the shown part of a relation.
func (p *property) related() []task.ID {
	if p == nil {
		return nil
	}
	var ids []task.ID
	for _, page := range p.Relation {
		if id, err := task.ParseID(page.ID); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// text returns the id as people write it; empty if the page has no number that can be represented.
func (u *uniqueID) text() string {
	if u == nil || u.Number == nil || *u.Number != math.Trunc(*u.Number) || math.Abs(*u.Number) >= 1<<53 {
		return ""
	}
	number := task.FieldText(*u.Number)
	if u.Prefix != nil && *u.Prefix != "" {
		return *u.Prefix + "-" + number
	}
	return number
}

// value returns a property's value in the form of task.Fields. A text is cut to 2000 characters.
// Relations and people are those in the answer, 25 at most: the rest would take further requests. A
// property without a value, or of an unknown type, is nil.
func (p *property) value() any {
	switch p.Type {
	case typeTitle, typeRichText, typeSelect, typeStatus:
		return stringValue(new(p.text()))
	case typeNumber:
		return valueOf(p.Number)
	case typeDate:
		return p.Date.value()
	case typePeople:
		return listOf(p.People, person.value)
	case typeRelation:
		return listOf(p.Relation, pageRef.value)
	case typeUniqueID:
		return stringValue(new(p.UniqueID.text()))
	case typeCheckbox:
		return valueOf(p.Checkbox)
	case "url":
		return stringValue(p.URL)
	case "email":
		return stringValue(p.Email)
	case "phone_number":
		return stringValue(p.Phone)
	case "created_time":
		return stringValue(p.CreatedTime)
	case "last_edited_time":
		return stringValue(p.EditedTime)
	case typeMultiSelect:
		return listOf(p.MultiSelect, named.value)
	case "files":
		return listOf(p.Files, named.value) // their URLs change all the time
	case "place":
		if p.Place != nil {
			return p.Place.value()
		}
	case "created_by":
		if p.CreatedBy != nil {
			return p.CreatedBy.value()
		}
	case "last_edited_by":
		if p.EditedBy != nil {
			return p.EditedBy.value()
		}
	case "verification":
		if p.Verified != nil {
			return stringValue(&p.Verified.State)
		}
	case typeFormula:
		return p.formula()
	case "rollup":
		return p.rollup()
	}
	return nil
}

func (p *property) formula() any {
	f := p.Formula
	if f == nil {
		return nil
	}
	switch f.Type {
	case "string":
		return stringValue(f.String)
	case "number":
		return valueOf(f.Number)
	case "boolean":
		return valueOf(f.Boolean)
	case "date":
		return f.Date.value()
	}
	return nil
}

// rollup returns a rollup's values as one list, without empty ones, or its only value.
func (p *property) rollup() any {
	r := p.Rollup
	if r == nil {
		return nil
	}
	switch r.Type {
	case "number":
		return valueOf(r.Number)
	case "date":
		return r.Date.value()
	case "array":
		all := []any{}
		for i := range r.Array {
			switch v := r.Array[i].value().(type) {
			case nil:
			case []any:
				all = append(all, v...)
			default:
				all = append(all, v)
			}
		}
		return orNil(all)
	}
	return nil
}

// orNil returns a list as a value: nil if it is empty.
func orNil(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

func listOf[T any](items []T, value func(T) any) any {
	all := []any{}
	for _, item := range items {
		if v := value(item); v != nil {
			all = append(all, v)
		}
	}
	return orNil(all)
}

func valueOf[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func stringValue(s *string) any {
	if s == nil || task.Plain(*s) == "" {
		return nil
	}
	return shortened(task.Plain(*s))
}

func (n named) value() any { return stringValue(new(task.Name(n.Name))) }

func (p person) value() any {
	if name := task.Name(strings.TrimSpace(p.Name)); name != "" {
		return stringValue(&name)
	}
	return stringValue(&p.ID) // Notion does not give every name
}

func (r pageRef) value() any {
	if id, err := task.ParseID(r.ID); err == nil {
		return string(id)
	}
	return nil
}

// value returns a date in Notion's form, or its start and end.
func (d *rawDate) value() any {
	switch {
	case d == nil || !isDate(d.Start):
		return nil
	case isDate(d.End):
		return map[string]any{"start": d.Start, "end": d.End}
	}
	return d.Start
}

func isDate(s string) bool {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	_, err := time.Parse(time.RFC3339, s+"Z")
	return err == nil
}

// value is the value of a property in a request. The library's own values cannot be empty,
// except texts and lists, and its dates have no milliseconds.
type value struct {
	kind    notionapi.PropertyType
	content any // the value without its type; nil clears the property
}

// GetID implements notionapi.Property. A value in a request has no id.
func (v value) GetID() string { return "" }

// GetType implements notionapi.Property.
func (v value) GetType() notionapi.PropertyType { return v.kind }

// MarshalJSON implements json.Marshaler.
func (v value) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[notionapi.PropertyType]any{v.kind: v.content})
}

// option returns the value of a select or status; the empty name clears it.
func option(kind notionapi.PropertyType, name string) value {
	if name == "" {
		return value{kind: kind}
	}
	return value{kind, named{name}}
}

// date returns the value of a point in time; the zero time clears it. Notion cuts it to the
// minute.
func date(t time.Time) value {
	if t.IsZero() {
		return value{kind: notionapi.PropertyTypeDate}
	}
	return value{notionapi.PropertyTypeDate, rawDate{Start: stamp(t)}}
}

// stamp formats a time with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// minutes returns the value of a duration in whole minutes, rounded up; zero clears it.
func minutes(d time.Duration) value {
	if d <= 0 {
		return value{kind: notionapi.PropertyTypeNumber}
	}
	return value{notionapi.PropertyTypeNumber, math.Ceil(d.Minutes())}
}

// text returns the value of a rich text; the empty text clears it.
func text(s string) value {
	return value{notionapi.PropertyTypeRichText, new(spanWriter).write(s)}
}

// The limits of texts.
const (
	spanLimit  = 2000    // UTF-16 code units in a span
	spansLimit = 100     // spans in a text
	sizeLimit  = 400_000 // bytes of text in a request; Notion takes requests of 500 KB
)

// spanWriter writes the texts of one request, and cuts off what does not fit.
type spanWriter struct{ size int }

// write splits s into spans.
func (w *spanWriter) write(s string) []notionapi.RichText {
	spans := []notionapi.RichText{}
	for s != "" && len(spans) < spansLimit {
		n := prefix(s, spanLimit)
		encoded, err := json.Marshal(s[:n])
		if err != nil || w.size+len(encoded) > sizeLimit {
			break
		}
		w.size += len(encoded)
		spans = append(spans, notionapi.RichText{Text: &notionapi.Text{Content: s[:n]}})
		s = s[n:]
	}
	return spans
}

// prefix returns the length, in bytes, of the longest prefix of s with at most n UTF-16 code
// units.
func prefix(s string, n int) int {
	for i, r := range s {
		if n -= max(1, utf16.RuneLen(r)); n < 0 {
			return i
		}
	}
	return len(s)
}

// fits reports whether s has at most n UTF-16 code units.
func fits(s string, n int) bool { return prefix(s, n) == len(s) }

// shortened cuts a text that is too long for a line of a log, or for an entry of a log database.
// Nothing depends on a text of that length.
func shortened(s string) string {
	if fits(s, spanLimit) {
		return s
	}
	return s[:prefix(s, spanLimit-1)] + "…"
}
