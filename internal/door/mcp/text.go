package mcp

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Task is a task in an answer. It is short, as agents pay for each word.
type Task struct {
	ID        task.ID     `json:"id"`
	Key       string      `json:"key,omitempty"`
	Title     string      `json:"title"`
	Status    task.Status `json:"status,omitempty"`
	Priority  string      `json:"priority,omitempty"`
	Agent     string      `json:"agent,omitempty"` // who has it, or is the only one to get it
	ExpiresAt api.Time    `json:"expires_at,omitzero"`
	ClaimID   claim.ID    `json:"claim_id,omitempty"`
	Reason    string      `json:"reason,omitempty"` // why it cannot be claimed

	standing, urgency string // Status and Priority in the board's words
}

func taskOf(t api.TaskRef) Task {
	return Task{ID: t.ID, Key: line(t.Key), Title: line(t.Title), Status: t.Status, Priority: priority(t.Priority), standing: line(t.StatusWord()), urgency: line(priority(t.PriorityWord()))}
}

func listedTask(t api.Task) Task {
	out := taskOf(t.TaskRef)
	out.Agent, out.ExpiresAt, out.ClaimID, out.Reason = line(cmp.Or(t.AssignedTo, t.Agent)), t.ExpiresAt, t.ClaimID, line(t.Reason)
	return out
}

// heldTask returns the task of a claim.
func heldTask(c api.Claim) Task {
	out := taskOf(c.Task)
	out.Agent, out.ExpiresAt, out.ClaimID = line(c.Agent), c.ExpiresAt, c.ID
	return out
}

// priority returns a priority, or nothing for none.
func priority(p string) string {
	if p == "none" {
		return ""
	}
	return p
}

// taskLine describes a task in one line.
func taskLine(t Task) string {
	text := called(t)
	if t.urgency != "" {
		text += ", " + t.urgency
	}
	if t.Status != "" && t.Status != task.Open {
		text += ", " + t.standing
	}
	if t.Agent != "" {
		text += ", " + t.Agent + lasting(t.ExpiresAt)
	}
	return text
}

// called returns how a sentence names a task: by its title, and by the name that tools take, which
// is the shorter key if there is one.
func called(t Task) string {
	name := cmp.Or(t.Key, string(t.ID))
	if t.Title == "" {
		return name
	}
	return name + " “" + task.Brief(quotes.Replace(t.Title), maxTitle) + "”"
}

// quotes replaces the quotation marks that delimit a title, so that a title cannot end early.
var quotes = strings.NewReplacer("“", `"`, "”", `"`)

// maxTitle limits the characters of a title.
const maxTitle = 80

// goneText says that a claim ended without its agent's doing.
func goneText(c api.Claim) string {
	t := taskOf(c.Task)
	switch c.Outcome {
	case claim.EndLost, claim.EndOverridden, claim.EndSwept:
		return fmt.Sprintf("CLAIM LOST: %s is no longer yours: %s. Stop working on it.", called(t), why(c))
	}
	return fmt.Sprintf("NOTE: your claim on %s is over: %s.", called(t), why(c))
}

// why returns how a claim ended.
func why(c api.Claim) string {
	text := cmp.Or(strings.TrimSuffix(withoutCommands(line(c.Detail)), "."), string(c.Outcome))
	if !c.EndedAt.IsZero() {
		text += ", at " + timeOfDay(c.EndedAt.Time)
	}
	return text
}

// alsoText says that the agent holds a claim it did not know of.
func alsoText(c api.Claim) string {
	t := taskOf(c.Task)
	return fmt.Sprintf("NOTE: you hold %s%s.", called(t), lasting(c.ExpiresAt))
}

// lasting returns until when something lasts, as the end of a sentence.
func lasting(until api.Time) string {
	if until.IsZero() {
		return ""
	}
	text := " until " + timeOfDay(until.Time)
	if left := time.Until(until.Time); left > 0 {
		text += fmt.Sprintf(" (in %d min)", (left+time.Minute-1)/time.Minute)
	}
	return text
}

// timeOfDay formats a time of today as a time, any other with its date.
func timeOfDay(t time.Time) string {
	now := time.Now()
	t = t.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("Jan 2 15:04")
}

// line folds text from others into one line, without invisible characters.
func line(s string) string { return task.OneLine(s, unicode.ReplacementChar) }
