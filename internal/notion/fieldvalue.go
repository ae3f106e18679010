package notion

import (
	"encoding/json"
	"strings"
	"time"

	"dibs/internal/task"
)

// value returns a property's value in the form of task.Fields. A text is cut to 2000 characters.
// Relations and people are those in the answer, 25 at most: the rest would take further requests. A
// property without a value, or of an unknown type, is nil.
func (p *rawProperty) value() any {
	switch p.Type {
	case typeTitle:
		return textValue(p.Title)
	case typeRichText:
		return textValue(p.RichText)
	case typeNumber:
		if p.Number != nil {
			return *p.Number
		}
	case typeSelect:
		return p.Select.value()
	case typeStatus:
		return p.Status.value()
	case typeDate:
		return p.Date.value()
	case typePeople:
		return listOf(p.People, person.value)
	case typeRelation:
		return listOf(p.Relation, pageRef.value)
	case typeUniqueID:
		return p.UniqueID.value()
	}
	return p.otherValue()
}

// otherProperty decodes properties of all other types. A formula's or rollup's value is also under
// its own type.
type otherProperty struct {
	Type string `json:"type"`

	Checkbox    *bool   `json:"checkbox"`
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

	Formula *struct {
		Type    string   `json:"type"`
		String  *string  `json:"string"`
		Number  *float64 `json:"number"`
		Boolean *bool    `json:"boolean"`
		Date    *rawDate `json:"date"`
	} `json:"formula"`
	Rollup *struct {
		Type   string        `json:"type"`
		Number *float64      `json:"number"`
		Date   *rawDate      `json:"date"`
		Array  []rawProperty `json:"array"`
	} `json:"rollup"`
}

func (p *rawProperty) otherValue() any {
	var o otherProperty
	if len(p.other) == 0 || json.Unmarshal(p.other, &o) != nil {
		return nil
	}
	switch o.Type {
	case "checkbox":
		return valueOf(o.Checkbox)
	case "url":
		return stringValue(o.URL)
	case "email":
		return stringValue(o.Email)
	case "phone_number":
		return stringValue(o.Phone)
	case "created_time":
		return stringValue(o.CreatedTime)
	case "last_edited_time":
		return stringValue(o.EditedTime)
	case "multi_select":
		return listOf(o.MultiSelect, func(n named) any { return n.value() })
	case "files":
		return listOf(o.Files, func(n named) any { return n.value() }) // their URLs change all the time
	case "place":
		return o.Place.value()
	case "created_by":
		return o.CreatedBy.orNil()
	case "last_edited_by":
		return o.EditedBy.orNil()
	case "verification":
		if o.Verified != nil {
			return stringValue(&o.Verified.State)
		}
	case typeFormula:
		if f := o.Formula; f != nil {
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
		}
	case "rollup":
		if r := o.Rollup; r != nil {
			switch r.Type {
			case "number":
				return valueOf(r.Number)
			case "date":
				return r.Date.value()
			case "array":
				return flat(r.Array)
			}
		}
	}
	return nil
}

// flat returns a rollup's values as one list, without empty ones.
func flat(properties []rawProperty) any {
	all := []any{}
	for i := range properties {
		switch v := properties[i].value().(type) {
		case nil:
		case []any:
			all = append(all, v...)
		default:
			all = append(all, v)
		}
	}
	return orNil(all)
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

func textValue(spans []span) any {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.PlainText)
	}
	return stringValue(new(b.String()))
}

func (n *named) value() any {
	if n == nil {
		return nil
	}
	return stringValue(&n.Name)
}

func (p person) value() any {
	if name := strings.TrimSpace(p.Name); name != "" {
		return stringValue(&name)
	}
	return stringValue(&p.ID) // Notion does not give every name
}

func (p *person) orNil() any {
	if p == nil {
		return nil
	}
	return p.value()
}

func (r pageRef) value() any {
	if id, err := task.ParseID(r.ID); err == nil {
		return string(id)
	}
	return nil
}

func (u *uniqueID) value() any {
	if !u.given() {
		return nil
	}
	number := task.FieldText(*u.Number)
	if u.Prefix != nil && *u.Prefix != "" {
		return *u.Prefix + "-" + number
	}
	return number
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
