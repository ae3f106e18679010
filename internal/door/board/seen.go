package board

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// seen is what a form showed of its task. It travels in the form.
type seen struct {
	At       int64       `json:"at"` // when, in milliseconds
	Status   task.Status `json:"status"`
	Standing string      `json:"standing"`
	Who      string      `json:"who"`
	Claim    claim.ID    `json:"claim,omitempty"`
	Title    string      `json:"title"`
	Priority string      `json:"priority"`
	Note     string      `json:"note"`
	Needs    string      `json:"needs"`
	Edited   int64       `json:"edited"`
}

func seenOf(t api.Task) seen { return cardOf(t).seen() }

func (c card) seen() seen {
	who := cmp.Or(c.Agent, "nobody")
	if c.OfferedTo != "" {
		who = "offered to " + c.OfferedTo
	}
	return seen{
		At: time.Now().UnixMilli(), Status: c.Status, Standing: c.Standing, Who: who, Claim: c.Claim,
		Title: c.Title, Priority: cmp.Or(c.Word, "none"), Note: c.Note, Needs: c.Needs, Edited: c.Edited,
	}
}

// String returns the value of the form's field.
func (s seen) String() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers only
	}
	return string(data)
}

// parseSeen is the inverse of String. A field that is none differs from every task.
func parseSeen(field string) seen {
	var s seen
	_ = json.Unmarshal([]byte(field), &s)
	return s
}

// difference is what somebody has changed.
type difference struct{ What, Was, Is string }

// differences returns what is otherwise by now than it was seen. That a task was edited counts by
// itself only if nobody works on it: whoever works on it edits it, to renew the claim.
func (s seen) differences(t api.Task) (all []difference) {
	now := seenOf(t)
	add := func(what, was, is string) {
		if was != is {
			all = append(all, difference{what, cmp.Or(was, "–"), cmp.Or(is, "–")})
		}
	}
	if s.Status != now.Status {
		add("Status", cmp.Or(s.Standing, string(s.Status)), now.Standing)
	}
	if s.Who == now.Who && s.Claim != now.Claim {
		now.Who += ", by another claim"
	}
	add("Who has it", s.Who, now.Who)
	add("Title", s.Title, now.Title)
	add("Priority", s.Priority, now.Priority)
	add("Note", s.Note, now.Note)
	if s.Needs != now.Needs {
		add("What it waits for", count(card{Needs: s.Needs}), count(card{Needs: now.Needs})+", perhaps others")
	}
	if len(all) == 0 && t.ClaimID == "" && s.Edited != now.Edited {
		add("Edited", day(s.Edited), cmp.Or(day(now.Edited), "–")+" or again since")
	}
	return all
}

func count(c card) string { return fmt.Sprintf("%d tasks", len(c.needs())) }

// day writes a moment with its date.
func day(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).Format(dayLayout)
}

// since returns what happened to a task after a moment, as far as the board knows.
func (b *Board) since(id task.ID, ms int64) (events []event) {
	for _, e := range b.state.current().Events {
		if e.Task == id && e.At > ms {
			events = append(events, e)
		}
	}
	return events[max(0, len(events)-5):]
}
