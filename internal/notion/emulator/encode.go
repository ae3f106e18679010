package emulator

import (
	"encoding/json"
	"slices"
)

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

// prefix returns the prefix of a unique_id property; nil if it has none.
func (p property) prefix() *string {
	var c struct {
		Prefix *string `json:"prefix"`
	}
	if err := json.Unmarshal(p.Config, &c); err != nil || c.Prefix == nil || *c.Prefix == "" {
		return nil
	}
	return c.Prefix
}
