package notion

import (
	"encoding/json"
	"time"

	"github.com/jomei/notionapi"
)

// rawProperty is a property value as a page's answer shows it, of the types that
// this daemon reads.
type rawProperty struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Title    []span    `json:"title"`
	RichText []span    `json:"rich_text"`
	Number   *float64  `json:"number"`
	Select   *named    `json:"select"`
	Status   *named    `json:"status"`
	Date     *rawDate  `json:"date"`
	People   []person  `json:"people"`
	Relation []pageRef `json:"relation"`
	// HasMore is said of relations.
	HasMore bool `json:"has_more"`
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
	}
	person struct {
		ID   string `json:"id"`
		Name string `json:"name,omitempty"`
	}
	pageRef struct {
		ID string `json:"id"`
	}
)

// plain returns the property in the plainest form that the library understands,
// and false if it has no id or is of a type that nothing here reads.
func (p *rawProperty) plain() (json.RawMessage, bool) {
	if p.ID == "" {
		return nil, false
	}
	var value any
	switch notionapi.PropertyType(p.Type) {
	case notionapi.PropertyTypeTitle:
		value = p.Title
	case notionapi.PropertyTypeRichText:
		value = p.RichText
	case notionapi.PropertyTypeNumber:
		value = p.Number
	case notionapi.PropertyTypeSelect:
		value = p.Select
	case notionapi.PropertyTypeStatus:
		value = p.Status
	case notionapi.PropertyTypeDate:
		value = p.Date.moment()
	case notionapi.PropertyTypePeople:
		value = p.People
	case notionapi.PropertyTypeRelation:
		value = p.Relation
	default:
		return nil, false
	}
	data, err := json.Marshal(map[string]any{"id": p.ID, "type": p.Type, p.Type: value})
	return data, err == nil
}

// moment turns a date into a moment. A date without a time becomes the last
// moment at which it is that day anywhere on Earth, so that a lease that began on
// it is never thought older than it may be. A time without an offset is UTC. What
// is no date at all becomes none: beside a name that is a reservation, which
// nobody overrides.
func (d *rawDate) moment() *rawDate {
	if d == nil {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, d.Start); err == nil {
		return d
	}
	if _, err := time.Parse(time.DateOnly, d.Start); err == nil {
		return &rawDate{Start: d.Start + "T23:59:00.000-12:00"}
	}
	if _, err := time.Parse(time.RFC3339, d.Start+"Z"); err == nil {
		return &rawDate{Start: d.Start + "Z"}
	}
	return nil
}
