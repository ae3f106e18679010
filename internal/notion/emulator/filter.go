package emulator

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// predicate reports whether a row belongs to a query's result.
type predicate func(*page) bool

// maxNesting is how deeply compound filters may be nested.
const maxNesting = 2

// conditions maps each kind of filter to the property types that it applies to.
var conditions = map[string][]string{
	"title":            {"title"},
	"rich_text":        {"rich_text", "title", "url", "email", "phone_number"},
	"url":              {"url"},
	"email":            {"email"},
	"phone_number":     {"phone_number"},
	"number":           {"number"},
	"checkbox":         {"checkbox"},
	"select":           {"select"},
	"multi_select":     {"multi_select"},
	"status":           {"status"},
	"date":             {"date", "created_time", "last_edited_time"},
	"created_time":     {"created_time"},
	"last_edited_time": {"last_edited_time"},
	"people":           {"people", "created_by", "last_edited_by"},
	"created_by":       {"created_by"},
	"last_edited_by":   {"last_edited_by"},
	"files":            {"files"},
	"relation":         {"relation"},
	"unique_id":        {"unique_id"},
	"formula":          {"formula"},
	"rollup":           {"rollup"},
	"verification":     {"verification"},
}

// compileFilter compiles a filter. depth is the number of compound filters around it.
func (c *call) compileFilter(s *source, n node, depth int) (predicate, error) {
	m, err := n.object()
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"and", "or"} {
		if _, ok := m[key]; ok {
			return c.compileCompound(s, n, key, depth)
		}
	}
	if t := n.get("timestamp"); t.present {
		if depth == maxNesting && !c.version.hasSources() {
			return nil, t.should("not present")
		}
		return c.compileTimestamp(n)
	}
	name, err := n.get("property").text(maxContent)
	if err != nil {
		return nil, err
	}
	kind, err := conditionOf(n, m)
	if err != nil {
		return nil, err
	}
	p, ok := s.property(name)
	if !ok {
		return nil, invalid("Could not find property with name or id: %s", name)
	}
	if !slices.Contains(conditions[kind], p.Type) {
		return nil, invalid("The property type in the database does not match the property type of the filter provided: "+
			"database property %s does not match filter %s", p.Type, kind)
	}
	return c.compileProperty(p, n.get(kind))
}

func (c *call) compileCompound(s *source, n node, key string, depth int) (predicate, error) {
	if depth >= maxNesting {
		return nil, n.get(key).should("not present")
	}
	if err := n.only(key); err != nil {
		return nil, err
	}
	elements, err := n.get(key).array()
	if err != nil {
		return nil, err
	}
	var parts []predicate
	for _, e := range elements {
		part, err := c.compileFilter(s, e, depth+1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if key == "or" {
		return func(p *page) bool {
			return slices.ContainsFunc(parts, func(part predicate) bool { return part(p) })
		}, nil
	}
	return func(p *page) bool {
		return !slices.ContainsFunc(parts, func(part predicate) bool { return !part(p) })
	}, nil
}

// conditionOf returns the only condition of a property filter.
func conditionOf(n node, m map[string]any) (string, error) {
	found := ""
	for _, key := range sortedKeys(m) {
		if key == "property" || key == "type" {
			continue
		}
		if _, ok := conditions[key]; !ok || found != "" {
			return "", n.get(key).should("not present")
		}
		found = key
	}
	if found == "" {
		return "", n.get("rich_text").should("defined")
	}
	return found, n.typed(found)
}

func (c *call) compileTimestamp(n node) (predicate, error) {
	kind, err := n.get("timestamp").oneOf("created_time", "last_edited_time")
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(n.only("timestamp", "type", kind), n.typed(kind)); err != nil {
		return nil, err
	}
	match, err := c.dateCondition(n.get(kind))
	if err != nil {
		return nil, err
	}
	return func(p *page) bool {
		m := p.created()
		if kind == "last_edited_time" {
			m = p.edited()
		}
		return match(&m)
	}, nil
}

// created and edited return the times as filters and sorts see them: cut to the minute.
func (p *page) created() moment { return moment{toMinute(p.Created.UTC()), false} }

func (p *page) edited() moment { return moment{toMinute(p.Edited.UTC()), false} }

// compileProperty compiles the condition n on a property of a matching type.
func (c *call) compileProperty(p property, n node) (predicate, error) {
	switch p.Type {
	case "title", "rich_text", "url", "email", "phone_number":
		match, err := textCondition(n)
		return func(row *page) bool { return match(row.Values[p.ID].plain()) }, err
	case "number", "unique_id":
		match, err := numberCondition(n)
		return func(row *page) bool { return match(row.Values[p.ID].Number) }, err
	case "checkbox":
		match, err := checkboxCondition(n)
		return func(row *page) bool { return match(row.Values[p.ID].Checked) }, err
	case "select", "status":
		match, err := choiceCondition(n, p.knownOption)
		return func(row *page) bool {
			o, _ := c.world.chosen(row, p)
			return match(o.Name)
		}, err
	case "multi_select":
		match, err := setCondition(n, p.knownOption)
		return func(row *page) bool { return match(row.Values[p.ID].names(p)) }, err
	case "date", "created_time", "last_edited_time":
		match, err := c.dateCondition(n)
		return func(row *page) bool { return match(row.moment(p)) }, err
	case "people", "created_by", "last_edited_by":
		match, err := setCondition(n, c.filteredUser)
		return func(row *page) bool { return match(row.people(p)) }, err
	case "relation":
		match, err := setCondition(n, node.id)
		return func(row *page) bool { return match(c.world.related(row.Values[p.ID])) }, err
	case "files":
		match, err := emptyCondition(n)
		return func(row *page) bool { return match(row.Values[p.ID].Raw == nil) }, err
	case "verification":
		return c.compileVerification(p, n)
	}
	return c.compileResult(p, n)
}

// compileResult compiles a condition on the result of a formula or a rollup.
func (c *call) compileResult(p property, n node) (predicate, error) {
	kind, err := n.single()
	if err != nil {
		return nil, err
	}
	result := func(row *page, key string) any {
		m, _ := row.Values[p.ID].rawJSON().(map[string]any)
		return m[key]
	}
	switch kind {
	case "string", "text", "rich_text":
		match, err := textCondition(n.get(kind))
		return func(row *page) bool {
			s, _ := result(row, "string").(string)
			return match(s)
		}, err
	case "number":
		match, err := numberCondition(n.get(kind))
		return func(row *page) bool {
			if f, ok := result(row, "number").(float64); ok {
				return match(&f)
			}
			return match(nil)
		}, err
	case "checkbox":
		match, err := checkboxCondition(n.get(kind))
		return func(row *page) bool {
			b, _ := result(row, "boolean").(bool)
			return match(b)
		}, err
	case "date":
		match, err := c.dateCondition(n.get(kind))
		return func(row *page) bool {
			d, _ := result(row, "date").(map[string]any)
			start, _ := d["start"].(string)
			return match(startOf(start))
		}, err
	}
	return nil, n.get(kind).should("not present")
}

// filteredUser decodes a user in a filter: an id, or "me" for the caller.
func (c *call) filteredUser(n node) (string, error) {
	if n.value == "me" {
		return c.user, nil
	}
	return n.id()
}

func (c *call) compileVerification(p property, n node) (predicate, error) {
	if err := n.only("status"); err != nil {
		return nil, err
	}
	want, err := n.get("status").oneOf("verified", "expired", "none")
	if err != nil {
		return nil, err
	}
	return func(row *page) bool {
		m, _ := row.Values[p.ID].rawJSON().(map[string]any)
		state, _ := m["state"].(string)
		if state == "" || state == "unverified" {
			state = "none"
		}
		return state == want
	}, nil
}

// knownOption decodes the name of an option in a filter, which must exist.
func (p property) knownOption(n node) (string, error) {
	name, err := n.text(maxOption)
	if err != nil {
		return "", err
	}
	if _, ok := p.optionNamed(name); !ok {
		quoted := make([]string, len(p.Options))
		for i, o := range p.Options {
			quoted[i] = strconv.Quote(o.Name)
		}
		return "", invalid("%s option %q not found for property %q. Available options: %s.",
			p.Type, name, p.Name, strings.Join(quoted, ", "))
	}
	return name, nil
}

// plain returns the text of any textual value.
func (v value) plain() string {
	if v.Text != nil {
		return *v.Text
	}
	return plainText(v.Spans)
}

// names returns the options of a multi_select.
func (v value) names(p property) []string {
	var names []string
	for _, id := range v.Options {
		if o, ok := p.optionID(id); ok {
			names = append(names, o.Name)
		}
	}
	return names
}

// moment returns a row's value of a date or timestamp property; nil if it is empty.
func (p *page) moment(prop property) *moment {
	v := p.Values[prop.ID]
	if s, ok := v.rawJSON().(string); ok {
		return startOf(s)
	}
	switch prop.Type {
	case "created_time":
		m := p.created()
		return &m
	case "last_edited_time":
		m := p.edited()
		return &m
	}
	if v.Date == nil {
		return nil
	}
	return startOf(v.Date.Start)
}

// people returns the users in a row's property.
func (p *page) people(prop property) []string {
	switch prop.Type {
	case "created_by":
		return []string{p.CreatedBy}
	case "last_edited_by":
		return []string{p.EditedBy}
	}
	return p.Values[prop.ID].People
}

// contains ignores case, as Notion's filters do.
func contains(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}
