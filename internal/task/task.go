// Package task holds the nouns every other package speaks of: a task, its
// status and priority, and the order in which ready tasks are offered.
// It does no I/O and imports only the standard library.
package task

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Task is one page of the tasks database, as of one reading of it.
//
// Times are Notion's, in UTC. Notion keeps dates to the minute, truncated, so
// ClaimedAt and Edited may lie up to a minute before the moment they stand for.
type Task struct {
	ID ID `json:"id"`
	// Key is what people call the task, such as T-3: its unique id with the prefix
	// that the database has for it. It is empty if the database has no unique id.
	Key   string `json:"key,omitempty"`
	Title string `json:"title"`
	URL   string `json:"url,omitempty"`

	Status   Status   `json:"status"`
	Priority Priority `json:"priority"`

	// ClaimedBy is the holder's name, empty when nobody holds the task.
	ClaimedBy string `json:"claimed_by,omitempty"`
	// ClaimedAt is when the claim was written or last renewed; zero when the
	// page has no such date, which beside a ClaimedBy means an assignment.
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// Cleared is set if Status is not what somebody chose: Notion shows it since the
	// option that the page had, that of IN_PROGRESS, was deleted.
	Cleared bool `json:"-"`
	// Token is the claim token: a ULID while a claim lives, see claim.Token.
	Token string `json:"-"`
	// Timeout is the task's own lease length; zero means the configured default.
	Timeout time.Duration `json:"-"`
	// OddTimeout is set if the page has a lease length that is none, such as a
	// fraction of a minute: a person's, and left as it is.
	OddTimeout bool `json:"-"`

	DependsOn []ID `json:"depends_on,omitempty"`

	// Note is what the page's note says, shortened to 2000 characters: a person's words,
	// and the line in which dibs says how the last claim ended, see claim.Write.
	Note string `json:"note,omitempty"`

	// Fields has the values of the further properties that the configuration names, by
	// their names there, see Fields. It is nil if none is configured.
	Fields Fields `json:"fields,omitempty"`

	Created time.Time `json:"created_at,omitzero"`
	Edited  time.Time `json:"edited_at,omitzero"`
	// EditedBy is the id of the Notion user, a person or a bot, who edited the page last;
	// empty if that is not known.
	EditedBy string `json:"-"`

	// Trashed is set for pages in the trash and for archived ones.
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

// ParseTaskID is ParseID for tasks: of a URL that shows a page beside a board or on top of
// it, it is that page, not the board.
func ParseTaskID(s string) (ID, error) {
	if u, err := url.Parse(s); err == nil && u.Scheme != "" {
		if peeked := u.Query().Get("p"); peeked != "" {
			return ParseID(peeked)
		}
	}
	return ParseID(s)
}

// maxKey is far longer than any key.
const maxKey = 64

// ParseKey accepts what people call a task, such as T-3 or, where the database has no
// prefix, 3. ok is false for anything else.
func ParseKey(s string) (key string, ok bool) {
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

// IsKey reports whether s names the task by its key, in whatever case.
func (t Task) IsKey(s string) bool { return t.Key != "" && strings.EqualFold(t.Key, s) }
