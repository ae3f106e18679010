package task

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Filter selects tasks that meet all of its conditions; the zero value selects all tasks.
type Filter struct {
	Priority *Priority
	Where    []Condition
	// Words have to be in the title, all of them, in any case.
	Words []string
}

// Condition is the condition that a field matches a value, see FieldMatches.
type Condition struct{ Field, Value string }

// Empty reports whether the filter selects all tasks.
func (f Filter) Empty() bool { return f.Priority == nil && len(f.Where) == 0 && len(f.Words) == 0 }

// Match reports whether t meets the filter.
func (f Filter) Match(t Task) bool {
	if f.Priority != nil && t.Priority != *f.Priority {
		return false
	}
	for _, c := range f.Where {
		if !c.met(t) {
			return false
		}
	}
	return f.titled(t)
}

// met reports whether t meets the condition: a relation by the titles or by the ids of its pages.
func (c Condition) met(t Task) bool {
	is := func(id ID) bool { return FieldMatches(string(id), c.Value) }
	return FieldMatches(t.Field(c.Field), c.Value) || slices.ContainsFunc(t.Related[c.Field], is)
}

// titled reports whether the title of t contains all words.
func (f Filter) titled(t Task) bool {
	if len(f.Words) == 0 {
		return true
	}
	title := strings.ToLower(t.Title)
	for _, word := range f.Words {
		if !strings.Contains(title, strings.ToLower(word)) {
			return false
		}
	}
	return true
}

// Miss returns in one line, in the words of w, which conditions t does not meet; empty if it meets
// all.
func (f Filter) Miss(t Task, w *Words) string {
	var reasons []string
	if f.Priority != nil && t.Priority != *f.Priority {
		reasons = append(reasons, "its priority is "+w.PriorityOf(t))
	}
	for _, c := range f.Where {
		if c.met(t) {
			continue
		}
		reasons = append(reasons, fmt.Sprintf("its %s is %s", c.Field, cmp.Or(FieldText(w.shown(t, c.Field)), "empty")))
	}
	if !f.titled(t) {
		reasons = append(reasons, fmt.Sprintf("its title has not %s in it", quoted(f.Words)))
	}
	return strings.Join(reasons, ", ")
}

// shown returns the value of a field as people see it.
func (w *Words) shown(t Task, field string) any {
	if _, own := t.own(field); !own && field == "status" {
		return w.StatusOf(t)
	} else if !own && field == "priority" {
		return w.PriorityOf(t)
	}
	return t.Field(field)
}

// Values returns the values of a field as people see them, each once: several of a list, and the empty
// text of an empty field.
func (w *Words) Values(t Task, field string) (texts []string) {
	list, several := w.shown(t, field).([]any)
	if !several {
		list = []any{w.shown(t, field)}
	}
	for _, item := range list {
		if text := FieldText(item); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

func quoted(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = "“" + w + "”"
	}
	return strings.Join(list, " and ")
}

// builtin are the fields that every task has, in addition to the configured ones.
var builtin = []string{"title", "key", "status", "priority", "claimed_by", "note"}

// own returns the value of one of the task's further properties.
func (t Task) own(name string) (value any, ok bool) {
	if value, ok = t.Fields[name]; !ok {
		value, ok = t.Scope[name]
	}
	return value, ok
}

// Field returns the value of a field, as in Fields. A configured field goes before a built-in one of the same
// name.
func (t Task) Field(name string) any {
	if v, ok := t.own(name); ok {
		return v
	}
	text := ""
	switch name {
	case "title":
		text = t.Title
	case "key":
		text = t.Key
	case "status":
		text = string(t.Status)
	case "priority": // either word will do
		return []any{t.Priority.String(), t.PriorityName}
	case "claimed_by":
		text = t.ClaimedBy
	case "note":
		text = t.Note
	}
	if text == "" {
		return nil
	}
	return text
}

// ParseCondition parses NAME=VALUE. NAME is a configured or built-in field; its case does not
// matter unless names differ only in that. A name may contain a "=".
func ParseCondition(s string, configured []string) (Condition, error) {
	if !strings.Contains(s, "=") {
		return Condition{}, fmt.Errorf("%q: want NAME=VALUE", s)
	}
	s = Name(s)
	known := slices.Concat(configured, builtin)
	for _, equal := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for i := strings.LastIndexByte(s, '='); i >= 0; i = strings.LastIndexByte(s[:i], '=') {
			name := strings.TrimSpace(s[:i])
			if at := slices.IndexFunc(known, func(k string) bool { return equal(k, name) }); at >= 0 {
				return Condition{known[at], strings.TrimSpace(s[i+1:])}, nil
			}
		}
	}
	name, _, _ := strings.Cut(s, "=")
	more := "tasks.fields in the configuration adds others"
	if len(configured) == 0 {
		more = "tasks.fields in the configuration, which is empty, adds others"
	}
	return Condition{}, fmt.Errorf("there is no field %q: want one of %s; %s", strings.TrimSpace(name), strings.Join(known, ", "), more)
}
