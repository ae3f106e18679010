package emulator

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// titleID is the id of every title property.
const titleID = "title"

// property is one property of a data source's schema.
type property struct {
	ID   string `json:"id"` // URL-encoded, as Notion shows it
	Name string `json:"name"`
	Type string `json:"type"`
	// Description is what people wrote about it; nil if nothing.
	Description *string `json:"description,omitempty"`

	Options []option  `json:"options,omitempty"` // select, multi_select, status
	Groups  []group   `json:"groups,omitempty"`  // status
	Link    *relation `json:"relation,omitempty"`
	// Config is the schema of any other type, shown as given.
	Config json.RawMessage `json:"config,omitempty"`
}

type option struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Color       string  `json:"color"`
	Description *string `json:"description"`
	// group is the group in which a request puts a status option.
	group string
}

type group struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Color     string   `json:"color"`
	OptionIDs []string `json:"option_ids"`
}

// relation is where a relation property points.
type relation struct {
	Source string `json:"source"`
	// Synced is the id of the synced property on the other side; empty for a one-way relation.
	Synced string `json:"synced,omitempty"`
}

// propertyTypes are the types of properties. "place", "button", "verification" and "unsupported"
// cannot be made through Notion's API but exist in real databases.
var propertyTypes = []string{
	"title", "rich_text", "number", "select", "multi_select", "status", "date", "people", "files", "checkbox",
	"url", "email", "phone_number", "formula", "relation", "rollup", "created_time", "created_by",
	"last_edited_time", "last_edited_by", "unique_id", "verification", "button", "place", "unsupported",
}

// colors of options, assigned in turn.
var colors = []string{"default", "gray", "brown", "orange", "yellow", "green", "blue", "purple", "pink", "red"}

// hasID reports whether id is the property's, escaped or not.
func (p property) hasID(id string) bool {
	if p.ID == id {
		return true
	}
	raw, err := url.QueryUnescape(p.ID)
	return err == nil && raw == id
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
