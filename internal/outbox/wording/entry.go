// Package wording writes the two Notion logs, and comments: the mesh log of claim
// attempts and the fates of claims, the task log of finished work, and the comments in
// which agents tell people why they stopped. Facts wait in the journal's outbox until
// they are in Notion, each exactly once.
package wording

import (
	"cmp"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
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

// takenBack reports whether e says that Holder took a task back from Agent through dibs.
func takenBack(e claim.Fact) bool { return e.Kind == claim.KindLost && e.By != "" }
