package notion

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
)

// rawProperty is a property's value in an answer, if its type is read here.
type rawProperty struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
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
	// other is the whole property, if it is of a type that has no field here.
	other json.RawMessage
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

// UnmarshalJSON implements json.Unmarshaler. A property of an unknown form gets no id, so that the
// rest of the page can be read.
func (p *rawProperty) UnmarshalJSON(data []byte) error {
	type fields rawProperty
	if json.Unmarshal(data, (*fields)(p)) != nil {
		*p = rawProperty{}
	}
	switch p.Type {
	case typeTitle, typeRichText, typeNumber, typeSelect, typeStatus, typeDate, typePeople, typeRelation, typeUniqueID:
	default:
		p.other = bytes.Clone(data)
	}
	return nil
}

// plainProperty is a property in the plainest form that the library understands. Only
// the field of its type is set; it may point to nothing.
type plainProperty struct {
	ID       string     `json:"id"`
	Type     string     `json:"type"`
	Title    *[]span    `json:"title,omitempty"`
	RichText *[]span    `json:"rich_text,omitempty"`
	Number   **float64  `json:"number,omitempty"`
	Checkbox *bool      `json:"checkbox,omitempty"`
	Select   **named    `json:"select,omitempty"`
	Status   **named    `json:"status,omitempty"`
	Date     **rawDate  `json:"date,omitempty"`
	People   *[]person  `json:"people,omitempty"`
	Relation *[]pageRef `json:"relation,omitempty"`
	UniqueID *uniqueID  `json:"unique_id,omitempty"`
}

// plain returns the property in its plainest form. ok is false if it has no id, or is
// of a type that nothing here reads.
func (p *rawProperty) plain() (plain plainProperty, ok bool) {
	plain.ID, plain.Type = p.ID, p.Type
	switch p.Type {
	case typeTitle:
		plain.Title = &p.Title
	case typeRichText:
		plain.RichText = &p.RichText
	case typeNumber:
		plain.Number = &p.Number
	case typeCheckbox:
		plain.Checkbox = p.Checkbox
		return plain, p.ID != "" && p.Checkbox != nil
	case typeSelect:
		plain.Select = &p.Select
	case typeStatus:
		plain.Status = &p.Status
	case typeDate:
		p.Date = p.Date.moment()
		plain.Date = &p.Date
	case typePeople:
		plain.People = &p.People
	case typeRelation:
		plain.Relation = &p.Relation
	case typeUniqueID:
		plain.UniqueID = p.UniqueID
		return plain, p.ID != "" && p.UniqueID.given()
	default:
		return plain, false
	}
	return plain, p.ID != ""
}

// given reports whether a page has a number that the library can represent.
func (u *uniqueID) given() bool {
	return u != nil && u.Number != nil && *u.Number == math.Trunc(*u.Number) && math.Abs(*u.Number) < 1<<53
}

// moment turns a date into a moment.
//
//   - A date without a time becomes the last moment at which it is that day anywhere on
//     Earth. So a lease that began on it is never thought older than it may be.
//   - A time without an offset is UTC.
//   - What is no date at all becomes no date. Beside a name, that makes an assignment,
//     which nobody overrides.
func (d *rawDate) moment() *rawDate {
	if d == nil {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, d.Start); err == nil {
		return &rawDate{Start: d.Start}
	}
	if _, err := time.Parse(time.DateOnly, d.Start); err == nil {
		return &rawDate{Start: d.Start + "T23:59:00.000-12:00"}
	}
	if _, err := time.Parse(time.RFC3339, d.Start+"Z"); err == nil {
		return &rawDate{Start: d.Start + "Z"}
	}
	return nil
}
