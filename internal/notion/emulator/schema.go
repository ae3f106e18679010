package emulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// propertyTypes are the types of properties. "place", "button", "verification" and "unsupported"
// cannot be made through Notion's API but exist in real databases.
var propertyTypes = []string{
	"title", "rich_text", "number", "select", "multi_select", "status", "date", "people", "files", "checkbox",
	"url", "email", "phone_number", "formula", "relation", "rollup", "created_time", "created_by",
	"last_edited_time", "last_edited_by", "unique_id", "verification", "button", "place", "unsupported",
}

// inURL reports whether an id from a URL, decoded once, is the property's. An id that was escaped
// twice is not.
func (p property) inURL(id string) bool {
	raw, err := url.QueryUnescape(p.ID)
	return err == nil && raw == id
}

// only decodes the properties to show; nil for all. The ids are those of schemas, escaped once with
// the rest of the URL.
func (c *call) only(s *source) ([]string, error) {
	var ids []string
	for _, id := range slices.Concat(c.query["filter_properties"], c.query["filter_properties[]"]) {
		if s != nil && slices.ContainsFunc(s.Properties, func(p property) bool { return p.hasID(id) && !p.inURL(id) }) {
			return nil, invalid("Could not find property with name or id: %s", id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (p property) option(match func(option) bool) (option, bool) {
	i := slices.IndexFunc(p.Options, match)
	if i < 0 {
		return option{}, false
	}
	return p.Options[i], true
}

func (p property) optionNamed(name string) (option, bool) {
	return p.option(func(o option) bool { return o.Name == name })
}

func (p property) optionID(id string) (option, bool) {
	return p.option(func(o option) bool { return o.ID == id })
}

// defaultStatus returns the option of a status property without a choice: the first of the first
// group.
func (p property) defaultStatus() (option, bool) {
	for _, g := range p.Groups {
		for _, id := range g.OptionIDs {
			return p.optionID(id)
		}
	}
	return option{}, false
}

// encode encodes the property in a schema.
func (p property) encode(w *world, s *source) map[string]any {
	m := map[string]any{"id": p.ID, "name": p.Name, "description": p.Description, "type": p.Type}
	switch p.Type {
	case "select", "multi_select":
		m[p.Type] = map[string]any{"options": orEmpty(p.Options)}
	case "status":
		m[p.Type] = map[string]any{"options": orEmpty(p.Options), "groups": orEmpty(p.Groups)}
	case "relation":
		m[p.Type] = p.Link.encode(w)
	case "unique_id":
		m[p.Type] = map[string]any{"prefix": p.prefix()}
	case "rollup":
		m[p.Type] = p.encodeRollup(w, s)
	default:
		m[p.Type] = json.RawMessage("{}")
		if len(p.Config) > 0 {
			m[p.Type] = p.Config
		}
	}
	return m
}

func (r *relation) encode(w *world) map[string]any {
	m := map[string]any{"data_source_id": r.Source, "type": "single_property", "single_property": map[string]any{}}
	target := w.Sources[r.Source]
	if target == nil {
		return m
	}
	m["database_id"] = target.Database
	if synced, ok := target.property(r.Synced); ok && r.Synced != "" {
		delete(m, "single_property")
		m["type"] = "dual_property"
		m["dual_property"] = map[string]any{"synced_property_id": synced.ID, "synced_property_name": synced.Name}
	}
	return m
}

// orEmpty encodes a missing list as [] rather than null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// decodeSchema decodes the properties of a new data source.
func (tx *tx) decodeSchema(s *source, n node) error {
	m, err := n.object()
	if err != nil {
		return err
	}
	titles := 0
	for _, name := range sortedKeys(m) {
		p, err := tx.decodeProperty(s, property{ID: s.newPropertyID(), Name: name}, n.get(name))
		if err != nil {
			return err
		}
		if p.Type == "title" {
			titles++
		}
		s.Properties = append(s.Properties, p)
	}
	if titles != 1 {
		return invalid("Title is not provided. A database must have exactly one property of type title.")
	}
	return s.checkNames(tx.world, nil)
}

// decodeProperty decodes one property of a schema on top of p.
func (tx *tx) decodeProperty(s *source, p property, n node) (property, error) {
	m, err := n.object()
	if err != nil {
		return p, err
	}
	kind := p.Type
	for _, t := range propertyTypes {
		if _, ok := m[t]; ok {
			kind = t
		}
	}
	if t := n.opt("type"); t.present {
		if kind, err = t.oneOf(propertyTypes...); err != nil {
			return p, err
		}
	}
	if kind == "unsupported" && !tx.direct {
		return p, n.get(kind).should("not present")
	}
	if kind == "" {
		return p, n.get("type").should("defined")
	}
	if p.Description, err = n.description(p.Description); err != nil {
		return p, err
	}
	if kind != p.Type {
		if p.Type == "title" || kind == "title" && p.Type != "" {
			return p, invalid("Cannot change the type of the title property.")
		}
		p = property{ID: p.ID, Name: p.Name, Description: p.Description, Type: kind}
		if kind == "title" {
			p.ID = titleID
		}
	}
	return p, tx.decodeConfig(s, &p, n.get(kind))
}

// decodeConfig decodes the schema under the key of the property's type.
func (tx *tx) decodeConfig(s *source, p *property, n node) error {
	if _, err := n.object(); err != nil {
		return err
	}
	switch p.Type {
	case "select", "multi_select":
		if options := n.opt("options"); options.present {
			return p.decodeOptions(options)
		}
	case "status":
		return p.decodeStatus(n)
	case "relation":
		return tx.decodeRelation(s, p, n)
	case "number":
		return p.configure(n.opt("format"), "format", "number")
	case "formula":
		return p.configure(n.opt("expression"), "expression", "")
	case "rollup":
		return p.decodeRollup(n)
	case "unique_id":
		p.Config = nil
		if prefix := n.opt("prefix"); !prefix.unset() {
			return p.configure(prefix, "prefix", "")
		}
	}
	return nil
}

// configure sets the only member of the property's configuration to a text. One that is left out
// keeps its value, or gets the default.
func (p *property) configure(n node, key, preset string) error {
	text := preset
	if n.present {
		var err error
		if text, err = n.text(maxContent); err != nil {
			return err
		}
	} else if p.Config != nil {
		return nil
	}
	p.Config = compact(map[string]string{key: text})
	return nil
}

// description decodes the description of a property or an option; was is that of before.
func (n node) description(was *string) (*string, error) {
	d := n.opt("description")
	switch {
	case !d.present:
		return was, nil
	case d.null():
		return nil, nil
	}
	s, err := d.text(maxContent)
	return &s, err
}

// color decodes the color of an option; preset if it is left out.
func (n node) color(preset string) (string, error) {
	c := n.opt("color")
	if !c.present {
		return preset, nil
	}
	return c.oneOf(colors...)
}

// decodeOptions replaces the list of options. Those named again, by id or name, keep their id; the
// others are removed.
func (p *property) decodeOptions(n node) error {
	elements, err := n.array()
	if err != nil {
		return err
	}
	var options []option
	for i, e := range elements {
		o, err := p.decodeOption(e, colors[i%len(colors)])
		if err != nil {
			return err
		}
		if slices.ContainsFunc(options, func(x option) bool { return x.Name == o.Name }) {
			return e.get("name").should("unique")
		}
		options = append(options, o)
	}
	p.Options = options
	return nil
}

// decodeOption decodes one option; color is for a new one without a color. Notion takes another name
// or group for an option that a status has, and changes nothing.
func (p *property) decodeOption(n node, color string) (option, error) {
	if _, err := n.object(); err != nil {
		return option{}, err
	}
	var o option
	known := false
	if id := n.opt("id"); id.present {
		s, err := id.text(maxShort)
		if err != nil {
			return o, err
		}
		if o, known = p.optionID(s); !known {
			o.ID = s
		}
	}
	if name := n.get("name"); name.present || !known {
		s, err := optionName(name)
		if err != nil {
			return o, err
		}
		if old, ok := p.optionNamed(s); ok && !known {
			o, known = old, true
		}
		o.Name = s
	}
	if old, ok := p.optionID(o.ID); ok && p.Type == "status" {
		o.Name = old.Name
	}
	if !known {
		if o.ID == "" {
			o.ID = newID()
		}
		o.Color = color
	}
	var err error
	if o.Color, err = n.color(o.Color); err != nil {
		return o, err
	}
	if o.Description, err = n.description(o.Description); err != nil {
		return o, err
	}
	if g := n.get("group"); g.present {
		if p.Type != "status" {
			return o, g.should("not present")
		}
		var names []string
		for _, known := range p.Groups {
			names = append(names, known.Name)
		}
		if o.group, err = g.oneOf(names...); err != nil {
			return o, err
		}
		if known {
			o.group = ""
		}
	}
	return o, nil
}

// optionName decodes an option's name; Notion refuses commas in it.
func optionName(n node) (string, error) {
	s, err := n.text(maxOption)
	if err != nil {
		return "", err
	}
	if s == "" {
		return "", n.refuse(n.path+".length", "≥ `1`", "0")
	}
	if strings.Contains(s, ",") {
		return "", invalid("Invalid select option, commas not allowed: %s", s)
	}
	return s, nil
}

// statusGroups are the groups of every status property.
var statusGroups = []group{{Name: "To-do", Color: "gray"}, {Name: "In progress", Color: "blue"}, {Name: "Complete", Color: "green"}}

// defaultStatuses are the options of a status property made without options.
var defaultStatuses = []option{{Name: "Not started", Color: "default"}, {Name: "In progress", Color: "blue"}, {Name: "Done", Color: "green"}}

// decodeStatus decodes the options and groups of a status property. Options left out are removed;
// groups stay unless given.
func (p *property) decodeStatus(n node) error {
	if p.Groups == nil {
		for _, g := range statusGroups {
			g.ID = newID()
			p.Groups = append(p.Groups, g)
		}
	}
	switch options := n.opt("options"); {
	case options.present:
		if err := p.decodeOptions(options); err != nil {
			return err
		}
	case p.Options == nil:
		for i, o := range defaultStatuses {
			o.ID, o.group = newID(), statusGroups[i].Name
			p.Options = append(p.Options, o)
		}
	}
	groups := slices.Clone(p.Groups)
	if g := n.opt("groups"); g.present {
		var err error
		if groups, err = p.decodeGroups(g); err != nil {
			return err
		}
	}
	p.Groups = p.regroup(groups)
	return nil
}

// decodeGroups decodes groups; they name their options by id or name.
func (p *property) decodeGroups(n node) ([]group, error) {
	elements, err := n.array()
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, e := range elements {
		name, err := e.get("name").text(maxOption)
		if err != nil {
			return nil, err
		}
		g := group{ID: newID(), Name: name, Color: "default"}
		if i := slices.IndexFunc(p.Groups, func(x group) bool { return x.Name == name }); i >= 0 {
			g.ID, g.Color = p.Groups[i].ID, p.Groups[i].Color
		}
		if g.Color, err = e.color(g.Color); err != nil {
			return nil, err
		}
		ids, err := e.get("option_ids").array()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			s, err := id.text(maxOption)
			if err != nil {
				return nil, err
			}
			o, ok := p.optionID(s)
			if !ok {
				if o, ok = p.optionNamed(s); !ok {
					return nil, id.should("the id of an option")
				}
			}
			g.OptionIDs = append(g.OptionIDs, o.ID)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// regroup removes deleted options from the groups, moves options that name a group into it, and
// adds the rest without a group to the first.
func (p *property) regroup(groups []group) []group {
	named := map[string]string{} // group by option id
	for i, o := range p.Options {
		if o.group != "" {
			named[o.ID], p.Options[i].group = o.group, ""
		}
	}
	grouped := map[string]bool{}
	for i, g := range groups {
		ids := []string{}
		for _, id := range g.OptionIDs {
			if _, ok := p.optionID(id); ok && !grouped[id] && (named[id] == "" || named[id] == g.Name) {
				ids = append(ids, id)
				grouped[id] = true
			}
		}
		groups[i].OptionIDs = ids
	}
	if len(groups) == 0 {
		return groups
	}
	for _, o := range p.Options {
		if grouped[o.ID] {
			continue
		}
		at := max(0, slices.IndexFunc(groups, func(g group) bool { return g.Name == named[o.ID] }))
		groups[at].OptionIDs = append(groups[at].OptionIDs, o.ID)
	}
	return groups
}

// decodeRelation decodes the target of a relation, and adds the synced property on the other side
// of a two-way relation.
func (tx *tx) decodeRelation(s *source, p *property, n node) error {
	target, err := tx.relationTarget(s, n)
	if err != nil {
		return err
	}
	link := &relation{Source: target.ID}
	var name node
	shown, err := n.variant(variant{kind: "single_property", decode: anyObject}, variant{kind: "dual_property", decode: func(n node) (any, error) {
		name = n.opt("synced_property_name")
		return anyObject(n)
	}})
	if err != nil {
		return err
	}
	dual := shown["type"] == "dual_property"
	if p.Link != nil && p.Link.Source == target.ID && dual == (p.Link.Synced != "") {
		return nil // unchanged
	}
	p.Link = link
	if !dual {
		return nil
	}
	back := property{ID: target.newPropertyID(), Type: "relation", Link: &relation{Source: s.ID, Synced: p.ID}}
	back.Name = "Related to " + plainText(s.Name) + " (" + p.Name + ")"
	if name.present {
		if back.Name, err = name.text(maxContent); err != nil {
			return err
		}
	}
	back.Name = target.free(back.Name)
	link.Synced = back.ID
	if target == s {
		s.Properties = append(s.Properties, back)
		return nil
	}
	tx.editSource(target, func(t *source) { t.Properties = append(t.Properties, back) })
	return nil
}

func anyObject(n node) (any, error) { return n.object() }

// free returns a name that no property has yet: name itself, or name with a number.
func (s *source) free(name string) string {
	out := name
	for n := 1; ; n++ {
		if _, taken := s.property(out); !taken {
			return out
		}
		out = fmt.Sprintf("%s %d", name, n)
	}
}

// relationTarget returns the data source to which a relation points. A new source can point to
// itself. API versions with data sources do not accept a database, and those without accept nothing
// else.
func (tx *tx) relationTarget(s *source, n node) (*source, error) {
	if id := n.get("data_source_id"); id.present {
		if tx.oneSource {
			return nil, id.should("not present")
		}
		uuid, err := id.id()
		if err != nil {
			return nil, err
		}
		if uuid == s.ID {
			return s, nil
		}
		if t, ok := tx.world.Sources[uuid]; ok && !tx.world.Hidden[t.Database] {
			return t, nil
		}
		return nil, notFound("data source", uuid)
	}
	if !tx.direct && !tx.oneSource {
		if n.get("database_id").present {
			return nil, n.get("database_id").should("not present")
		}
		return nil, n.get("data_source_id").should("defined")
	}
	uuid, err := n.get("database_id").id()
	if err != nil {
		return nil, err
	}
	if uuid == s.Database {
		return s, nil
	}
	d, ok := tx.world.Databases[uuid]
	if !ok || d.Linked || tx.world.Hidden[uuid] {
		return nil, notFound("database", uuid)
	}
	return tx.world.first(d), nil
}

// relate updates the other side of a two-way relation: pages that p points to now, and did not
// before, point back, and the reverse.
func (tx *tx) relate(p *page, prop property, before, after []string) {
	if prop.Link == nil || prop.Link.Synced == "" {
		return
	}
	for _, id := range after {
		if q := tx.world.Pages[id]; !slices.Contains(before, id) && q != nil {
			tx.edit(q, func(q *page) {
				v := q.Values[prop.Link.Synced]
				v.Pages = append(slices.Clone(v.Pages), p.ID)
				q.Values[prop.Link.Synced] = v
			})
		}
	}
	for _, id := range before {
		if q := tx.world.Pages[id]; !slices.Contains(after, id) && q != nil {
			tx.edit(q, func(q *page) {
				v := q.Values[prop.Link.Synced]
				v.Pages = slices.DeleteFunc(slices.Clone(v.Pages), func(x string) bool { return x == p.ID })
				q.Values[prop.Link.Synced] = v
			})
		}
	}
}

// named matches the properties in a formula.
var named = regexp.MustCompile(`prop\(("(?:[^"\\]|\\.)*")\)`)

// expression returns a property's formula.
func (p property) expression() string {
	var c struct {
		Expression string `json:"expression"`
	}
	if json.Unmarshal(p.Config, &c) != nil {
		return ""
	}
	return strings.TrimSpace(c.Expression)
}

// checkFormula returns an error if a formula names a property that does not exist.
func (s *source) checkFormula(p property) error {
	if p.Type != "formula" {
		return nil
	}
	for _, m := range named.FindAllStringSubmatch(p.expression(), -1) {
		name := unquoted(m[1])
		if _, ok := s.property(name); !ok {
			return invalid("Could not find property with name or id: %s", name)
		}
	}
	return nil
}

func unquoted(s string) string {
	name, err := strconv.Unquote(s)
	if err != nil {
		return s
	}
	return name
}

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

func (w *world) severalSources(d *database) error {
	return &apiError{
		status: http.StatusBadRequest, code: "validation_error",
		message: "Databases with multiple data sources are not supported in this API version.",
		additional: map[string]any{
			"error_type":            "multiple_data_sources_for_database",
			"database_id":           d.ID,
			"child_data_source_ids": w.sources(d),
			"minimum_api_version":   version2025,
		},
	}
}
