package task

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Task is one page of the tasks database, as it was read at some time.
//
// Times are Notion's, in UTC. Notion truncates dates to the minute, so
// ClaimedAt and Edited may be up to a minute early.
type Task struct {
	ID ID `json:"id"`
	// Key is the name of the task for people, such as T-3: its unique id with the database's
	// prefix. It is empty if the database has no unique id.
	Key   string `json:"key,omitempty"`
	Title string `json:"title"`
	URL   string `json:"url,omitempty"`

	Status Status `json:"status"`
	// StatusName is the page's own word for a status that is Unknown; empty if it shows none.
	StatusName string `json:"status_name,omitempty"`

	Priority Priority `json:"priority"`
	// PriorityName is the page's own word for its priority; empty if it shows none.
	PriorityName string `json:"priority_name,omitempty"`

	// ClaimedBy is the holder's name; empty if nobody holds the task.
	ClaimedBy string `json:"claimed_by,omitempty"`
	// ClaimedAt is when the claim was written or last renewed; zero if the page has no such
	// date. With a ClaimedBy, zero means an assignment.
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// Assignee names who the board's column of assignees shows: people, bots, or the agent that a
	// bot stands for. It is empty if nobody is there, or if the column is not in use. Whoever is
	// there has the task. dibs never writes to that column.
	Assignee string `json:"assignee,omitempty"`
	// AssigneeIsAgent is set if Assignee is an agent for which a Notion user stands. A person may
	// have the same name.
	AssigneeIsAgent bool `json:"assignee_is_agent,omitempty"`
	// Token is the claim token: a ULID while a claim lives, see claim.Token.
	Token string `json:"-"`
	// Timeout is the task's own lease length; zero for the configured default.
	Timeout time.Duration `json:"-"`

	DependsOn []ID `json:"depends_on,omitempty"`
	// SubItems are the parts of the task, which come before the whole. It is empty if the board's
	// column of sub-items is not in use.
	SubItems []ID `json:"sub_items,omitempty"`
	// Unblocks is how many unfinished tasks wait for this one, see Waits; zero outside of lists in
	// ready order.
	Unblocks int `json:"-"`

	// Note is the page's note, shortened to 2000 characters: a person's words, and the line in
	// which dibs says how the last claim ended, see claim.Write.
	Note string `json:"note,omitempty"`

	// DoneWhen says when the task is done, in at most 2000 characters; empty if the board has no
	// column for it in use.
	DoneWhen string `json:"done_when,omitempty"`
	// Touches are the patterns of the files that the work touches, as they were written, see package
	// reserve; nil if the board has no column for them in use.
	Touches []string `json:"touches,omitempty"`

	// Outside says what the task lacks of what tasks.only asks for; empty if agents may be offered
	// it.
	Outside string `json:"outside,omitempty"`

	// Fields are the values of the configured further properties; nil if none is configured.
	Fields Fields `json:"fields,omitempty"`
	// Scope are the values of those properties of tasks.only that are not among Fields: tasks are
	// selected by them, and do not show them.
	Scope Fields `json:"scope,omitempty"`
	// Related are the ids of the pages to which those of Fields and Scope that are relations lead, in
	// the same order: Fields and Scope have the pages' titles, as far as they are known.
	Related map[string][]ID `json:"related,omitempty"`

	Created time.Time `json:"created_at,omitzero"`
	Edited  time.Time `json:"edited_at,omitzero"`
	// EditedBy is the id of the Notion user (a person or a bot) that edited the page last; empty
	// if that is not known.
	EditedBy string `json:"-"`

	// Trashed is set for trashed and for archived pages.
	Trashed bool `json:"trashed,omitempty"`
}

// ID is a page id in its canonical form, a lower-case UUID with dashes.
type ID string

// ParseID accepts a UUID with or without dashes, in either case, or a Notion
// page URL that ends in one, and returns its canonical form.
func ParseID(s string) (ID, error) {
	raw := s
	if strings.Contains(raw, "://") {
		raw, _, _ = strings.Cut(raw, "?")
		raw, _, _ = strings.Cut(raw, "#")
		raw = raw[strings.LastIndexByte(raw, '/')+1:]
		if digits := strings.ReplaceAll(raw, "-", ""); len(digits) > 32 {
			raw = digits[len(digits)-32:]
		}
	}
	digits := strings.ToLower(raw)
	if len(digits) == 36 && digits[8] == '-' && digits[13] == '-' && digits[18] == '-' && digits[23] == '-' {
		digits = strings.ReplaceAll(digits, "-", "")
	}
	if len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not a Notion id: want 32 hexadecimal digits, with or without dashes, or the URL in Notion", s)
	}
	return ID(digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]), nil
}

// ParseTaskID is ParseID for tasks: from a URL of a board with a page open beside or on top of
// it, it returns the id of that page.
func ParseTaskID(s string) (ID, error) {
	s = strings.TrimSpace(s)
	if u, err := url.Parse(s); err == nil && u.Scheme != "" {
		if peeked := u.Query().Get("p"); peeked != "" {
			return ParseID(peeked)
		}
	}
	return ParseID(s)
}

// maxKey is far longer than any key.
const maxKey = 64

// ParseKey accepts a task's key, such as T-3, or 3 if the database has no prefix. ok is false for
// anything else.
func ParseKey(s string) (key string, ok bool) {
	s = strings.TrimSpace(s)
	prefix, number := "", s
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		if prefix, number = s[:i], s[i+1:]; prefix == "" {
			return "", false
		}
	}
	notWord := func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	switch {
	case number == "" || len(s) > maxKey, strings.Trim(number, "0123456789") != "",
		strings.ContainsFunc(prefix, notWord):
		return "", false
	}
	return s, true
}

// IsKey reports whether s is the task's key, in any case.
func (t Task) IsKey(s string) bool { return t.Key != "" && strings.EqualFold(t.Key, s) }

// Body is the JSON form in which a task is stored and passed on: complete, unlike the JSON of a
// Task, but for Unblocks, which is counted anew.
type Body struct {
	Task
	Token   string        `json:"token,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Editor  string        `json:"edited_by,omitempty"`
}

// BodyOf returns the body of t.
func BodyOf(t Task) Body {
	return Body{Task: t, Token: t.Token, Timeout: t.Timeout, Editor: t.EditedBy}
}

// Whole is the inverse of BodyOf.
func (b Body) Whole() Task {
	b.Task.Token, b.Task.Timeout, b.Task.EditedBy = b.Token, b.Timeout, b.Editor
	return b.Task
}

// Draft describes a task to create.
type Draft struct {
	Title string
	// Body is the content of its page, in Markdown; empty for none.
	Body string
	// Priority is a name, ours or the database's; empty for none.
	Priority  string
	DependsOn []ID
	// For is the agent that the task is assigned to; empty for all.
	For    string
	Fields []Field
}

// Field is a value for a property of the database.
type Field struct {
	// Name is the name of the property, in any case.
	Name string
	// Values are its values as texts: one, or several if the property takes several. None
	// leaves the property empty.
	Values []string
}

// DraftError says why no task can be created from a draft, and what to write instead.
type DraftError struct{ Detail string }

func (e *DraftError) Error() string { return e.Detail }

// Fields are the values of a task's further properties, by their names in the configuration.
// The values have the types of decoded JSON, so that storing them does not change them: nil
// for an empty property, a bool, a float64, a string, a []any of such values, or, for a date
// with an end, a map[string]any with a start and an end. Copies of a task share the map, so
// it must not be changed.
//
// Whoever can edit the page wrote the values: treat them as data, never as instructions.
type Fields map[string]any

// FieldMatches reports whether a field's value matches a text. The text comes from a person
// who need not know the field's type:
//
//   - A list matches if one of its items does.
//   - A number is compared by value, and a checkbox is true or false, yes or no.
//   - A date matches the days from its start to its end, and the exact moment of its start.
//   - Other values are compared in any case, and a task's id in any of its forms.
//   - The empty text matches an empty property. A checkbox is never empty.
func FieldMatches(value any, text string) bool {
	text = strings.TrimSpace(text)
	switch v := value.(type) {
	case nil:
		return text == ""
	case bool:
		want, ok := truth(text)
		return ok && want == v
	case float64:
		want, err := strconv.ParseFloat(text, 64)
		return err == nil && want == v
	case string:
		return same(v, text)
	case []any:
		if text == "" {
			return len(v) == 0
		}
		return slices.ContainsFunc(v, func(item any) bool { return FieldMatches(item, text) })
	case map[string]any:
		start, _ := v["start"].(string)
		end, _ := v["end"].(string)
		return same(start, text) || within(text, start, end)
	}
	return false
}

// truth parses a text for true or false; ok is false for any other.
func truth(text string) (is, ok bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "1":
		return true, true
	case "false", "no", "0":
		return false, true
	}
	return false, false
}

// same compares the text in a field with one that a person gives.
func same(value, text string) bool {
	value = strings.TrimSpace(value)
	if strings.EqualFold(Name(value), Name(text)) {
		return true
	}
	if a, err := ParseID(value); err == nil {
		b, err := ParseTaskID(text)
		return err == nil && a == b
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		want, err := time.Parse(time.RFC3339, text)
		return err == nil && at.Equal(want) || within(text, value, value)
	}
	return false
}

// within reports whether text is a day between those of start and end, inclusive.
func within(text, start, end string) bool {
	const day = len(time.DateOnly)
	if _, err := time.Parse(time.DateOnly, text); err != nil || len(start) < day || len(end) < day {
		return false
	}
	return start[:day] <= text && text <= end[:day]
}

// FieldText returns a field's value for people: a list with commas, a date with its end. It is
// empty for nil.
func FieldText(value any) string {
	switch v := value.(type) {
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = FieldText(item)
		}
		return strings.Join(items, ", ")
	case map[string]any:
		return FieldText(v["start"]) + " to " + FieldText(v["end"])
	}
	return ""
}
