package worklog

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// MessagePrefix begins the entry ids of messages, which tells them from what the logs say
// of claims.
const MessagePrefix = "message-"

// entryID is the id of the entry that a fact becomes.
func entryID(e claim.Fact) string {
	if e.Kind == claim.KindMessage {
		return MessagePrefix + e.ID
	}
	return e.ID
}

// ParseMessageID returns the fact of the entry id of a message; ok is false for any other.
func ParseMessageID(entry string) (event string, ok bool) {
	return strings.CutPrefix(entry, MessagePrefix)
}

// IsEntryID reports whether a text is the id of an entry, as it stands at the end of a
// title where the log has no column for it.
func IsEntryID(text string) bool {
	event, message := ParseMessageID(text)
	_, err := ulid.ParseStrict(event)
	return err == nil && (message || event == text)
}

// MessageColumns are the columns in which people and other programs write messages.
var MessageColumns = []string{"from", "to", "message"}

// titleText is how much of a message its title shows, in characters.
const titleText = 80

// messageTitle names the agent that a message is for as people do, so that it arrives
// also where the log has no columns for messages.
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
	if from == "" { // as on record from before users were
		return fmt.Sprintf("to %s: %s", to, string(text))
	}
	return fmt.Sprintf("%s to %s: %s", from, to, string(text))
}

// Row is a row of the mesh log that may be a message.
type Row struct {
	Page    task.ID
	EntryID string // empty, unless a daemon made it
	Created time.Time
	Title   string
	From    string
	To      string
	Text    string
}
