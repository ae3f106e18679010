// Package wording writes the two Notion logs, and comments: the mesh log of claim
// attempts and the fates of claims, the task log of finished work, and the comments in
// which agents tell people why they stopped. Facts wait in the journal's outbox until
// they are in Notion, each exactly once.
package wording

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Entry is a row of a log database. ID is unique to its fact.
type Entry struct {
	ID     string
	At     time.Time // when it happened, in Notion's time
	Title  string
	Fields []Field
	// Comment is the entry as a comment; only of claim.Comments.
	Comment Comment
}

// Comment is what an agent says to people on the page of a task.
type Comment struct {
	Page task.ID
	By   string // the agent, who signs it
	Text string
	// Mention is the id of the Notion user to mention; empty for nobody.
	Mention string
	// Asked is set if somebody asked for this comment. Else it accompanies something else,
	// and is written only if comments are on.
	Asked bool
}

// Field is one value of an entry. It fills the first property of the database that has
// one of its names and a fitting type.
type Field struct {
	// Name is the canonical name; Aliases are other names that people use.
	Name    string
	Aliases []string
	// Value is a string, a time.Time or a float64.
	Value any
}

// Names returns all names of the field, the canonical one first.
func (f Field) Names() []string { return append([]string{f.Name}, f.Aliases...) }

// EntryID is the name of the property by which an entry is looked up.
const EntryID = "entry_id"

// NewEntry returns the entry that a fact becomes in a log.
func NewEntry(e claim.Fact, log claim.Log) Entry {
	entry := Entry{ID: entryID(e), At: e.At, Title: title(e)}
	if log == claim.Comments {
		entry.Comment = Comment{Page: e.Task, By: cmp.Or(e.Agent, e.By), Text: e.Summary, Mention: e.Mention, Asked: e.Asked || e.Kind == claim.KindCommented && e.By != claim.Sweeper}
		return entry
	}
	add := func(value any, name string, aliases ...string) {
		switch v := value.(type) {
		case string:
			if v == "" {
				return
			}
		case time.Time:
			if v.IsZero() {
				return
			}
		}
		entry.Fields = append(entry.Fields, Field{Name: name, Aliases: aliases, Value: value})
	}

	if e.Kind == claim.KindMessage {
		add(entry.ID, EntryID)
		add(cmp.Or(e.Agent, e.By), "from", "agent", "agent_name", "worker")
		add(e.Holder, "to", "holder")
		add(e.Detail, "message", "text", "detail", "details")
		add(string(e.Kind), "event", "event_type", "type", "kind", "action")
		add(e.At, "at", "time", "timestamp", "date")
		return entry
	}
	add(entry.ID, EntryID)
	who, holder := e.Agent, e.Holder
	switch {
	case takenBack(e): // it is the entry of whoever did that
		who, holder = e.Holder, e.Agent
	case e.Kind != claim.KindSwept: // an entry of a sweep names the claim's agent, not who asked for it
		who = cmp.Or(e.Agent, e.By)
	}
	add(who, "agent", "agent_name", "worker", "from")
	add(e.Title, "task", "task_title", "task_name")
	add(string(e.Task), "task_id", "page_id")
	add(string(e.Claim), "claim_id", "claim")
	if log == claim.TaskLog {
		add(string(e.Kind), "outcome", "result", "status")
		add(e.Started, "started", "started_at", "start")
		add(e.Finished, "finished", "finished_at", "completed_at", "ended_at", "end")
		if !e.Started.IsZero() && !e.Finished.IsZero() {
			add(e.Finished.Sub(e.Started).Round(time.Second).Seconds(), "duration_seconds", "duration")
		}
		add(e.Summary, "summary", "notes")
		if e.Used.Tokens > 0 {
			add(float64(e.Used.Tokens), "tokens", "tokens_used")
		}
		if e.Used.Micros > 0 {
			add(float64(e.Used.Micros)/1e6, "usd", "cost", "cost_usd")
		}
		add(strings.Join(e.Evidence, "; "), "evidence", "proof")
		add(e.Holder, "holder")
		add(e.Detail, "detail", "details", "message")
	} else {
		add(string(e.Kind), "event", "event_type", "type", "kind", "action")
		add(e.At, "at", "time", "timestamp", "date")
		add(string(e.Code), "code", "reason")
		add(holder, "holder", "held_by", "to")
		if e.Count > 0 {
			add(float64(e.Count), "count")
			add(strings.Join(e.Names, "; "), "names", "agents")
		}
		add(e.Detail, "detail", "details", "message")
		add(e.Summary, "summary", "notes")
	}
	add(e.URL, "task_url", "url", "link")
	return entry
}

// Writer is one log. Its errors are *claim.StoreError, or a *outbox.GoneError around one.
type Writer interface {
	// Create adds the entry, in one request that is sent at most once.
	Create(ctx context.Context, e Entry) error
	// Find reports whether the log has that entry, in any of the forms in which it may have been
	// created.
	Find(ctx context.Context, e Entry) (bool, error)
}

// Entries writes the intents of one log as its entries.
type Entries struct {
	Log    claim.Log
	Writer Writer
}

var _ outbox.Entries = Entries{}

// Send implements outbox.Effect.
func (e Entries) Send(ctx context.Context, in outbox.Intent) (ref string, err error) {
	return "", e.Writer.Create(ctx, NewEntry(in.Fact, e.Log))
}

// Find implements outbox.Effect. Nobody needs the page of an entry, so the ref is empty.
func (e Entries) Find(ctx context.Context, in outbox.Intent) (refs []string, err error) {
	found, err := e.Writer.Find(ctx, NewEntry(in.Fact, e.Log))
	if found {
		refs = []string{""}
	}
	return refs, err
}

// Name implements outbox.Entries.
func (e Entries) Name(in outbox.Intent) (entry, words string) {
	return entryID(in.Fact), title(in.Fact)
}

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

// Example returns an entry with every field that an entry of that log can have. A database
// needs a property for each.
func Example(log claim.Log) Entry {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := claim.KindContested
	if log == claim.TaskLog {
		kind = claim.KindCompleted
	}
	return NewEntry(claim.Fact{
		ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: at, Kind: kind, Agent: "Sandman",
		Title: "A task", Task: "11111111-2222-3333-4444-555555555555", URL: "https://www.notion.so/11111111222233334444555555555555",
		Claim: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1E", Code: claim.CodeHeld, Holder: "Oracle", Count: 1, Names: []string{"Oracle"},
		Started: at, Finished: at.Add(time.Minute), Summary: "a summary", Evidence: []string{"a commit"}, Detail: "a detail",
		Used: claim.Usage{Tokens: 12000, Micros: 420000},
	}, log)
}

// MessageExample returns a message as an entry of the mesh log.
func MessageExample() Entry {
	return NewEntry(claim.Fact{
		ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: claim.KindMessage,
		Agent: "Sandman", Holder: "Oracle", Detail: "a message",
	}, claim.MeshLog)
}
