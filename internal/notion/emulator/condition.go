package emulator

import (
	"slices"
	"strings"
	"time"
)

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
