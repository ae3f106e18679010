package emulator

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"time"
)

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
		d, err := tx.decodeDate(n)
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

// encodeProperties encodes a page's properties by name; only lists the ids of those to show, nil
// for all.
func (w *world) encodeProperties(p *page, only []string) map[string]any {
	m := map[string]any{}
	s := w.source(p)
	if s == nil {
		m["title"] = w.encodeProperty(p, property{ID: titleID, Name: "title", Type: "title"})
		return m
	}
	for _, prop := range s.Properties {
		if len(only) > 0 && !slices.ContainsFunc(only, prop.hasID) {
			continue
		}
		m[prop.Name] = w.encodeProperty(p, prop)
	}
	return m
}

// encodeProperty encodes one property as part of a page.
func (w *world) encodeProperty(p *page, prop property) map[string]any {
	m := map[string]any{"id": prop.ID, "type": prop.Type}
	v := w.encodeValue(p, prop)
	if prop.Type == "relation" {
		all := v.([]any)
		m["has_more"] = len(all) > maxShown
		v = all[:min(len(all), maxShown)]
	}
	m[prop.Type] = v
	return m
}

// encodeValue returns the value under the key of the property's type, with all related pages.
func (w *world) encodeValue(p *page, prop property) any {
	v := p.Values[prop.ID]
	switch prop.Type {
	case "title", "rich_text":
		return orEmpty(v.Spans)
	case "number":
		return v.Number
	case "select", "status":
		o, ok := w.chosen(p, prop)
		if !ok {
			return nil
		}
		return o.encode()
	case "multi_select":
		out := []any{}
		for _, id := range v.Options {
			if o, ok := prop.optionID(id); ok {
				out = append(out, o.encode())
			}
		}
		return out
	case "date":
		if v.Date == nil {
			return nil
		}
		return v.Date.encode()
	case "checkbox":
		return v.Checked
	case "url", "email", "phone_number":
		return v.Text
	case "people":
		out := []any{}
		for _, id := range v.People {
			out = append(out, w.encodeUser(id))
		}
		return out
	case "relation":
		out := []any{}
		for _, id := range w.related(v) {
			out = append(out, map[string]any{"id": id})
		}
		return out
	case "unique_id":
		if v.Number == nil {
			return nil
		}
		return map[string]any{"prefix": prop.prefix(), "number": *v.Number}
	}
	if v.Raw != nil {
		return v.Raw
	}
	return w.computed(p, prop)
}

// computed returns the value of a type that Notion computes, unless one was set.
func (w *world) computed(p *page, prop property) any {
	switch prop.Type {
	case "created_time":
		return stamp(p.Created)
	case "last_edited_time":
		return stamp(p.Edited)
	case "created_by":
		return w.encodeUser(p.CreatedBy)
	case "last_edited_by":
		return w.encodeUser(p.EditedBy)
	case "files":
		return []any{}
	case "formula":
		return w.formula(p, prop)
	case "rollup":
		return map[string]any{"type": "number", "number": 0, "function": "count"}
	case "verification":
		return map[string]any{"state": "unverified", "verified_by": nil, "date": nil}
	case "place":
		return nil
	}
	return map[string]any{} // button, unsupported
}

// chosen returns the option that a select or status property shows. An option that was removed from
// the schema is gone from the pages, too.
func (w *world) chosen(p *page, prop property) (option, bool) {
	for _, id := range p.Values[prop.ID].Options {
		if o, ok := prop.optionID(id); ok {
			return o, true
		}
	}
	if prop.Type == "status" {
		return prop.defaultStatus()
	}
	return option{}, false
}

// related returns the pages of a relation that still exist.
func (w *world) related(v value) []string {
	var out []string
	for _, id := range v.Pages {
		if q, ok := w.Pages[id]; ok && !q.Trashed {
			out = append(out, id)
		}
	}
	return out
}

func (o option) encode() map[string]any {
	return map[string]any{"id": o.ID, "name": o.Name, "color": o.Color}
}

// addMinutes is the only formula computed here: a time plus minutes, which may come from another
// property.
var addMinutes = regexp.MustCompile(`^dateAdd\(prop\(("(?:[^"\\]|\\.)*")\), ?` +
	`(?:if\(prop\(("(?:[^"\\]|\\.)*")\) ?> ?0, ?prop\(("(?:[^"\\]|\\.)*")\), ?(\d+)\)|(\d+)), ?"minutes"\)$`)

// formula returns a formula's result on a page.
func (w *world) formula(p *page, prop property) map[string]any {
	m := addMinutes.FindStringSubmatch(prop.expression())
	s := w.source(p)
	if m == nil || s == nil {
		return map[string]any{"type": "string", "string": nil}
	}
	none := map[string]any{"type": "date", "date": nil}
	value := func(quoted string) value {
		of, _ := s.property(unquoted(quoted))
		return p.Values[of.ID]
	}
	from := value(m[1]).Date
	if from == nil {
		return none
	}
	at, _, ok := parseMoment(from.Start, time.UTC)
	if !ok {
		return none
	}
	minutes, _ := strconv.ParseFloat(m[4]+m[5], 64)
	if m[2] != "" && m[2] == m[3] {
		if n, ok := value(m[2]).float(); ok && n > 0 {
			minutes = n
		}
	}
	end := date{Start: at.Add(time.Duration(minutes * float64(time.Minute))).Format(shownLayout)}
	return map[string]any{"type": "date", "date": end.encode()}
}
