package emulator

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
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

// single returns the name of the only member; a condition must have exactly one.
func (n node) single() (string, error) {
	m, err := n.object()
	if err != nil {
		return "", err
	}
	keys := sortedKeys(m)
	switch len(keys) {
	case 0:
		return "", n.get("equals").should("defined")
	case 1:
		return keys[0], nil
	}
	return "", n.get(keys[1]).should("not present")
}

// truth checks the value of is_empty and is_not_empty, which must be true.
func (n node) truth() error {
	if n.value != true {
		return n.should("`true`")
	}
	return nil
}

// unknown returns the error for an operator that a condition does not have.
func (n node) unknown(operator string) error { return n.get(operator).should("not present") }

// textCondition ignores case, as Notion does.
func textCondition(n node) (func(string) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	switch op {
	case "is_empty":
		return func(s string) bool { return s == "" }, n.get(op).truth()
	case "is_not_empty":
		return func(s string) bool { return s != "" }, n.get(op).truth()
	}
	compare, ok := map[string]func(s, want string) bool{
		"equals":           strings.EqualFold,
		"does_not_equal":   func(s, want string) bool { return !strings.EqualFold(s, want) },
		"contains":         contains,
		"does_not_contain": func(s, want string) bool { return !contains(s, want) },
		"starts_with":      func(s, want string) bool { return strings.HasPrefix(strings.ToLower(s), strings.ToLower(want)) },
		"ends_with":        func(s, want string) bool { return strings.HasSuffix(strings.ToLower(s), strings.ToLower(want)) },
	}[op]
	if !ok {
		return nil, n.unknown(op)
	}
	want, err := n.get(op).text(maxContent)
	return func(s string) bool { return compare(s, want) }, err
}

// numberCondition's result takes nil for an empty property.
func numberCondition(n node) (func(*float64) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	switch op {
	case "is_empty":
		return func(f *float64) bool { return f == nil }, n.get(op).truth()
	case "is_not_empty":
		return func(f *float64) bool { return f != nil }, n.get(op).truth()
	}
	compare, ok := map[string]func(f, want float64) bool{
		"equals":                   func(f, want float64) bool { return f == want },
		"does_not_equal":           func(f, want float64) bool { return f != want },
		"greater_than":             func(f, want float64) bool { return f > want },
		"less_than":                func(f, want float64) bool { return f < want },
		"greater_than_or_equal_to": func(f, want float64) bool { return f >= want },
		"less_than_or_equal_to":    func(f, want float64) bool { return f <= want },
	}[op]
	if !ok {
		return nil, n.unknown(op)
	}
	want, err := n.get(op).number()
	return func(f *float64) bool {
		if f == nil {
			return op == "does_not_equal"
		}
		return compare(*f, want)
	}, err
}

func checkboxCondition(n node) (func(bool) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	if op != "equals" && op != "does_not_equal" {
		return nil, n.unknown(op)
	}
	want, err := n.get(op).boolean()
	return func(b bool) bool { return (b == want) == (op == "equals") }, err
}

// choiceCondition's result takes the name of the chosen option, "" for none; read decodes the name
// of an option.
func choiceCondition(n node, read func(node) (string, error)) (func(string) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	switch v := n.get(op); op {
	case "is_empty":
		return func(s string) bool { return s == "" }, v.truth()
	case "is_not_empty":
		return func(s string) bool { return s != "" }, v.truth()
	case "equals", "does_not_equal":
		elements := []node{v}
		if _, ok := v.value.([]any); ok {
			if elements, err = v.array(); err != nil {
				return nil, err
			}
		}
		wanted := make([]string, len(elements))
		for i, e := range elements {
			if wanted[i], err = read(e); err != nil {
				return nil, err
			}
		}
		return func(s string) bool { return slices.Contains(wanted, s) == (op == "equals") }, nil
	}
	return nil, n.unknown(op)
}

// setCondition is for properties with several values; read decodes one.
func setCondition(n node, read func(node) (string, error)) (func([]string) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	switch v := n.get(op); op {
	case "is_empty":
		return func(s []string) bool { return len(s) == 0 }, v.truth()
	case "is_not_empty":
		return func(s []string) bool { return len(s) > 0 }, v.truth()
	case "contains", "does_not_contain":
		want, err := read(v)
		return func(s []string) bool { return slices.Contains(s, want) == (op == "contains") }, err
	}
	return nil, n.unknown(op)
}

func emptyCondition(n node) (func(empty bool) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	if op != "is_empty" && op != "is_not_empty" {
		return nil, n.unknown(op)
	}
	return func(empty bool) bool { return empty == (op == "is_empty") }, n.get(op).truth()
}

// dateCondition's result takes nil for an empty property. It compares to the minute, or in days of
// UTC if either side is a day.
func (c *call) dateCondition(n node) (func(*moment) bool, error) {
	op, err := n.single()
	if err != nil {
		return nil, err
	}
	switch op {
	case "is_empty":
		return func(m *moment) bool { return m == nil }, n.get(op).truth()
	case "is_not_empty":
		return func(m *moment) bool { return m != nil }, n.get(op).truth()
	}
	if from, to, ok := relativeDays(op, c.now); ok {
		if _, err := n.get(op).object(); err != nil {
			return nil, err
		}
		return func(m *moment) bool {
			if m == nil {
				return false
			}
			d := dayOf(m.Time)
			return !d.Before(from) && !d.After(to)
		}, nil
	}
	fits, ok := map[string]func(order int) bool{
		"equals":       func(order int) bool { return order == 0 },
		"before":       func(order int) bool { return order < 0 },
		"after":        func(order int) bool { return order > 0 },
		"on_or_before": func(order int) bool { return order <= 0 },
		"on_or_after":  func(order int) bool { return order >= 0 },
	}[op]
	if !ok {
		return nil, n.unknown(op)
	}
	s, err := n.get(op).text(maxShort)
	if err != nil {
		return nil, err
	}
	want, ok := relativeDay(s, c.now)
	if !ok {
		if want, _, ok = parseMoment(s, time.UTC); !ok {
			return nil, n.get(op).should("a valid ISO 8601 date string")
		}
	}
	return func(m *moment) bool { return m != nil && fits(m.compare(want)) }, nil
}

func (m moment) compare(want moment) int {
	if m.day || want.day {
		return dayOf(m.Time).Compare(dayOf(want.Time))
	}
	return m.Compare(want.Time)
}

// startOf parses a shown date or time; nil if there is none.
func startOf(s string) *moment {
	m, _, ok := parseMoment(s, time.UTC)
	if !ok {
		return nil
	}
	return &m
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// relativeDay returns the day of a name such as "yesterday".
func relativeDay(name string, now time.Time) (moment, bool) {
	today := dayOf(now)
	day, ok := map[string]time.Time{
		"today": today, "tomorrow": today.AddDate(0, 0, 1), "yesterday": today.AddDate(0, 0, -1),
		"one_week_ago": today.AddDate(0, 0, -7), "one_week_from_now": today.AddDate(0, 0, 7),
		"one_month_ago": today.AddDate(0, -1, 0), "one_month_from_now": today.AddDate(0, 1, 0),
	}[name]
	return moment{day, true}, ok
}

// relativeDays returns the first and the last day of a span such as "past_week". Weeks begin on
// Sunday.
func relativeDays(op string, now time.Time) (from, to time.Time, ok bool) {
	today := dayOf(now)
	switch op {
	case "past_week":
		return today.AddDate(0, 0, -7), today, true
	case "past_month":
		return today.AddDate(0, -1, 0), today, true
	case "past_year":
		return today.AddDate(-1, 0, 0), today, true
	case "this_week":
		sunday := today.AddDate(0, 0, -int(today.Weekday()))
		return sunday, sunday.AddDate(0, 0, 6), true
	case "next_week":
		return today, today.AddDate(0, 0, 7), true
	case "next_month":
		return today, today.AddDate(0, 1, 0), true
	case "next_year":
		return today, today.AddDate(1, 0, 0), true
	}
	return from, to, false
}
