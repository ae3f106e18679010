package notion

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/jomei/notionapi"
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

// property returns the property as the library has it. ok is false if it has no id, or is of a type
// that nothing here reads.
func (p *rawProperty) property() (property notionapi.Property, ok bool) {
	kind := notionapi.PropertyType(p.Type)
	object := notionapi.ObjectID(p.ID)
	switch p.Type {
	case typeTitle:
		property = &notionapi.TitleProperty{ID: notionapi.PropertyID(p.ID), Type: kind, Title: richText(p.Title)}
	case typeRichText:
		property = &notionapi.RichTextProperty{ID: notionapi.PropertyID(p.ID), Type: kind, RichText: richText(p.RichText)}
	case typeNumber:
		n := &notionapi.NumberProperty{ID: notionapi.PropertyID(p.ID), Type: kind}
		if p.Number != nil {
			n.Number = *p.Number
		}
		property = n
	case typeCheckbox:
		if p.Checkbox == nil {
			return nil, false
		}
		property = &notionapi.CheckboxProperty{ID: object, Type: kind, Checkbox: *p.Checkbox}
	case typeSelect:
		property = &notionapi.SelectProperty{ID: object, Type: kind, Select: p.Select.option()}
	case typeStatus:
		property = &notionapi.StatusProperty{ID: object, Type: kind, Status: p.Status.option()}
	case typeDate:
		property = &notionapi.DateProperty{ID: object, Type: kind, Date: p.Date.moment()}
	case typePeople:
		people := &notionapi.PeopleProperty{ID: object, Type: kind, People: make([]notionapi.User, len(p.People))}
		for i, user := range p.People {
			people.People[i] = notionapi.User{ID: notionapi.UserID(user.ID), Name: user.Name}
		}
		property = people
	case typeRelation:
		related := &notionapi.RelationProperty{ID: object, Type: kind, Relation: make([]notionapi.Relation, len(p.Relation))}
		for i, page := range p.Relation {
			related.Relation[i].ID = notionapi.PageID(page.ID)
		}
		property = related
	case typeUniqueID:
		if !p.UniqueID.given() {
			return nil, false
		}
		property = &notionapi.UniqueIDProperty{ID: object, Type: kind, UniqueID: notionapi.UniqueID{Prefix: p.UniqueID.Prefix, Number: int(*p.UniqueID.Number)}}
	default:
		return nil, false
	}
	return property, p.ID != ""
}

func richText(spans []span) []notionapi.RichText {
	text := make([]notionapi.RichText, len(spans))
	for i, s := range spans {
		text[i].PlainText = s.PlainText
	}
	return text
}

func (n *named) option() notionapi.Option {
	if n == nil {
		return notionapi.Option{}
	}
	return notionapi.Option{Name: n.Name}
}

// given reports whether a page has a number that the library can represent.
func (u *uniqueID) given() bool {
	return u != nil && u.Number != nil && *u.Number == math.Trunc(*u.Number) && math.Abs(*u.Number) < 1<<53
}

// lastOfDay is from the beginning of a day, by UTC, to its last minute twelve hours west of there.
const lastOfDay = 23*time.Hour + 59*time.Minute + 12*time.Hour

// moment turns a date into a moment.
//
//   - A date without a time becomes the last moment at which it is that day anywhere on
//     Earth. So a lease that began on it is never thought older than it may be.
//   - A time without an offset is UTC.
//   - What is no date at all becomes no date. Beside a name, that makes an assignment,
//     which nobody overrides.
func (d *rawDate) moment() *notionapi.DateObject {
	if d == nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339, d.Start)
	if err != nil {
		if at, err = time.Parse(time.DateOnly, d.Start); err == nil {
			at = at.Add(lastOfDay)
		} else if at, err = time.Parse(time.RFC3339, d.Start+"Z"); err != nil {
			return nil
		}
	}
	return &notionapi.DateObject{Start: new(notionapi.Date(at))}
}
