package wording

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// MessagePrefix begins the entry ids of messages, and of no other entries.
const MessagePrefix = "message-"

// entryID returns the id of a fact's entry.
func entryID(e claim.Fact) string {
	if e.Kind == claim.KindMessage {
		return MessagePrefix + e.ID
	}
	return e.ID
}

// ParseMessageID returns the id of the fact in the entry id of a message; ok is false for any
// other entry id.
func ParseMessageID(entry string) (event string, ok bool) {
	return strings.CutPrefix(entry, MessagePrefix)
}

// IsEntryID reports whether a text is the id of an entry. Titles end with it where the log
// has no column for it.
func IsEntryID(text string) bool {
	event, message := ParseMessageID(text)
	_, err := ulid.ParseStrict(event)
	return err == nil && (message || event == text)
}

// MessageColumns are the columns in which people and other programs write messages.
var MessageColumns = []string{"from", "to", "message"}

// titleText is how much of a message its title shows, in characters.
const titleText = 80

// messageTitle addresses a message with an @, as people do, so that it arrives even if the log
// has no columns for messages.
func messageTitle(e claim.Fact) string {
	text := []rune(task.OneLine(e.Detail, -1))
	if len(text) > titleText {
		text = append(text[:titleText-1], '…')
	}
	to := "@" + e.Holder
	if e.Holder == "all" {
		to = e.Holder
	}
	from := cmp.Or(e.Agent, e.By)
	if from == "" { // an old record, from before users were recorded
		return fmt.Sprintf("to %s: %s", to, string(text))
	}
	return fmt.Sprintf("%s to %s: %s", from, to, string(text))
}

// Row is a row of the mesh log that may be a message.
type Row struct {
	Page    task.ID
	EntryID string // empty if no daemon made the row
	Created time.Time
	Title   string
	From    string
	To      string
	Text    string
}
