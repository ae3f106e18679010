package emulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
)

// rollupFunctions are the functions of rollups.
var rollupFunctions = []string{
	"count", "count_values", "empty", "not_empty", "unique", "show_unique", "percent_empty", "percent_not_empty", "sum", "average",
	"median", "min", "max", "range", "earliest_date", "latest_date", "date_range", "checked", "unchecked", "percent_checked",
	"percent_unchecked", "count_per_group", "percent_per_group", "show_original",
}

// decodeRollup decodes a rollup, which names both properties by name or by id. Whether they exist
// is checked when all properties of the request are known.
func (p *property) decodeRollup(n node) error {
	function, err := n.get("function").oneOf(rollupFunctions...)
	if err != nil {
		return err
	}
	config := map[string]string{"function": function}
	for _, kind := range []string{"relation", "rollup"} {
		for _, key := range []string{kind + "_property_id", kind + "_property_name"} {
			if name := n.opt(key); name.present {
				if config[key], err = name.text(maxContent); err != nil {
					return err
				}
			}
		}
		if config[kind+"_property_id"]+config[kind+"_property_name"] == "" {
			return n.get(kind + "_property_name").should("defined")
		}
	}
	p.Config = compact(config)
	return nil
}

// checkNames checks that the formulas and rollups that differ from those of before name properties
// that exist. Others may have lost theirs.
func (s *source) checkNames(w *world, before []property) error {
	for i, p := range s.Properties {
		if slices.ContainsFunc(before, func(b property) bool { return b.ID == p.ID && bytes.Equal(b.Config, p.Config) }) {
			continue
		}
		if err := s.checkFormula(p); err != nil {
			return err
		}
		if p.Type != "rollup" {
			continue
		}
		found := p.encodeRollup(w, s)
		for _, kind := range []string{"relation_property_", "rollup_property_"} {
			if found[kind+"id"] == nil || found[kind+"name"] == nil {
				return invalid("Could not find property with name or id: %s", cmp.Or(found[kind+"name"], found[kind+"id"]))
			}
		}
		s.Properties[i].Config = compact(found)
	}
	return nil
}

// encodeRollup encodes a rollup. Notion names both properties, by name and by id; it does not
// escape these ids.
func (p property) encodeRollup(w *world, s *source) map[string]any {
	m := map[string]any{}
	if len(p.Config) > 0 {
		if err := json.Unmarshal(p.Config, &m); err != nil {
			panic(err) // impossible: it was stored as JSON
		}
	}
	find := func(in *source, kind string) (property, bool) {
		for _, key := range []string{kind + "_property_id", kind + "_property_name"} {
			name, _ := m[key].(string)
			if in == nil || name == "" {
				continue
			}
			if found, ok := in.property(name); ok {
				raw, err := url.QueryUnescape(found.ID)
				if err != nil {
					raw = found.ID
				}
				m[kind+"_property_id"], m[kind+"_property_name"] = raw, found.Name
				return found, true
			}
		}
		return property{}, false
	}
	if over, ok := find(s, "relation"); ok && over.Link != nil {
		target := w.Sources[over.Link.Source]
		if over.Link.Source == s.ID {
			target = s // it may be new, or about to change
		}
		find(target, "rollup")
	}
	return m
}
