package emulator

import (
	"bytes"
	"encoding/json"
	"slices"
)

// value is the value of one property of one page. The property's type decides which field counts;
// the zero value is empty for every type.
type value struct {
	Spans   []span   `json:"spans,omitempty"`   // title, rich_text
	Number  *float64 `json:"number,omitempty"`  // number, unique_id
	Options []string `json:"options,omitempty"` // select, multi_select, status: ids
	Date    *date    `json:"date,omitempty"`
	Checked bool     `json:"checked,omitempty"`
	Text    *string  `json:"text,omitempty"`   // url, email, phone_number
	People  []string `json:"people,omitempty"` // ids of users
	Pages   []string `json:"pages,omitempty"`  // relation: ids
	// Raw is the value of types that Notion computes or only shows: formula, rollup, button, place,
	// verification, unsupported, files, and the created and edited properties if a test has set
	// them.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// maxShown is how many related pages a page's answer lists.
const maxShown = 25

// readOnly are the types that cannot be written through the API.
var readOnly = []string{
	"formula", "rollup", "created_time", "created_by", "last_edited_time", "last_edited_by", "unique_id",
	"verification", "button", "place", "unsupported",
}

// valueOf returns the value under the type in {"<type>": …}. fits is false if the value is of
// another type.
func valueOf(p property, n node) (v node, fits bool, err error) {
	if _, ok := n.value.([]any); ok && p.Type == "title" {
		return n, true, nil // Notion takes a bare array for a title
	}
	m, err := n.object()
	if err != nil {
		return n, false, err
	}
	_, ok := m[p.Type]
	if t := n.get("type"); t.present && t.value != p.Type {
		ok = false
	}
	return n.get(p.Type), ok, nil
}

// decodeValue decodes the value under a property's type.
func (tx *tx) decodeValue(s *source, p property, n node) (value, error) {
	if slices.Contains(readOnly, p.Type) {
		if !tx.direct {
			return value{}, n.should("not present")
		}
		if p.Type == "unique_id" && n.get("number").present {
			f, err := n.get("number").number()
			return value{Number: &f}, err
		}
		return value{Raw: compact(n.value)}, nil
	}
	switch p.Type {
	case "title", "rich_text":
		spans, err := tx.decodeSpans(n)
		return value{Spans: spans}, err
	case "number":
		if n.null() {
			return value{}, nil
		}
		f, err := n.number()
		return value{Number: &f}, err
	case "select", "status":
		return tx.decodeChoice(s, p, n)
	case "multi_select":
		return tx.decodeChoices(s, p, n)
	case "date":
		d, err := decodeDate(n)
		return value{Date: d}, err
	case "checkbox":
		b, err := n.boolean()
		return value{Checked: b}, err
	case "url":
		return decodeText(n, maxURL)
	case "email", "phone_number":
		return decodeText(n, maxShort)
	case "people":
		return tx.decodePeople(n)
	case "relation":
		return tx.decodePages(p, n)
	}
	return decodeFiles(n)
}

func decodeText(n node, max int) (value, error) {
	if n.null() {
		return value{}, nil
	}
	s, err := n.text(max)
	if s == "" {
		return value{}, err
	}
	return value{Text: &s}, err
}

// decodeChoice decodes {id} or {name}. A select creates an unknown option; a status refuses it, and
// returns to its default when cleared.
func (tx *tx) decodeChoice(s *source, p property, n node) (value, error) {
	if n.null() {
		return value{}, nil
	}
	id, err := tx.decodeOption(s, p, n)
	return value{Options: []string{id}}, err
}

func (tx *tx) decodeChoices(s *source, p property, n node) (value, error) {
	elements, err := n.array()
	if err != nil {
		return value{}, err
	}
	var v value
	for _, e := range elements {
		id, err := tx.decodeOption(s, p, e)
		if err != nil {
			return v, err
		}
		if !slices.Contains(v.Options, id) {
			v.Options = append(v.Options, id)
		}
	}
	return v, nil
}

func (tx *tx) decodeOption(s *source, p property, n node) (string, error) {
	if _, err := n.object(); err != nil {
		return "", err
	}
	// An earlier value of the same request may have made the option.
	s = tx.world.Sources[s.ID]
	p, _ = s.property(p.ID)
	color, err := n.color(colors[len(p.Options)%len(colors)])
	if err != nil {
		return "", err
	}
	if id := n.opt("id"); id.present {
		want, err := id.text(maxShort)
		if err != nil {
			return "", err
		}
		if o, ok := p.optionID(want); ok {
			return o.ID, nil
		}
		if !n.get("name").present {
			return "", invalid("%s option %q does not exist.", p.Name, want)
		}
	}
	name, err := optionName(n.get("name"))
	if err != nil {
		return "", err
	}
	if o, ok := p.optionNamed(name); ok {
		return o.ID, nil
	}
	if p.Type == "status" {
		return "", invalid("Invalid status option. Status option %q does not exist.", name)
	}
	o := option{ID: newID(), Name: name, Color: color}
	tx.editSource(s, func(s *source) {
		i := slices.IndexFunc(s.Properties, func(q property) bool { return q.ID == p.ID })
		s.Properties[i].Options = append(slices.Clone(p.Options), o)
	})
	return o.ID, nil
}

func (tx *tx) decodePeople(n node) (value, error) {
	elements, err := n.array()
	if err != nil {
		return value{}, err
	}
	var v value
	for _, e := range elements {
		id, err := e.userID()
		if err != nil {
			return v, err
		}
		if _, ok := tx.world.Users[id]; !ok {
			return v, notFound("user", id)
		}
		if !slices.Contains(v.People, id) {
			v.People = append(v.People, id)
		}
	}
	return v, nil
}

func (tx *tx) decodePages(p property, n node) (value, error) {
	elements, err := n.array()
	if err != nil {
		return value{}, err
	}
	if to := tx.world.Sources[p.Link.Source]; tx.oneSource && to != nil {
		if d := tx.world.Databases[to.Database]; len(tx.world.sources(d)) > 1 {
			return value{}, tx.world.severalSources(d)
		}
	}
	var v value
	for _, e := range elements {
		id, err := e.get("id").id()
		if err != nil {
			return v, err
		}
		target, ok := tx.world.Pages[id]
		if !ok || target.Parent.Source != p.Link.Source {
			return v, notFound("page", id)
		}
		if !slices.Contains(v.Pages, id) {
			v.Pages = append(v.Pages, id)
		}
	}
	return v, nil
}

// float returns the number, and false if there is none.
func (v value) float() (float64, bool) {
	if v.Number == nil {
		return 0, false
	}
	return *v.Number, true
}

// rawJSON returns Raw decoded; nil if there is none.
func (v value) rawJSON() any {
	if len(bytes.TrimSpace(v.Raw)) == 0 {
		return nil
	}
	var x any
	if err := json.Unmarshal(v.Raw, &x); err != nil {
		return nil
	}
	return x
}
