package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/door/board/markup"
	"dibs/internal/task"
)

// card is a task as a page shows it. Cards can be compared: equal cards look equal. Moments are in
// milliseconds since 1970, by this machine's clock; zero is none.
type card struct {
	ID       task.ID     `json:"id"`
	Key      string      `json:"key,omitempty"`
	Title    string      `json:"title"`
	URL      string      `json:"url,omitempty"`
	Status   task.Status `json:"status"`
	Priority string      `json:"priority,omitempty"` // empty for none
	Word     string      `json:"word,omitempty"`     // what the board calls the priority; empty for none
	Standing string      `json:"-"`                  // what the board calls the status
	Ready    bool        `json:"ready,omitempty"`

	Column string `json:"column"`           // the key of its column
	Fields string `json:"fields,omitempty"` // NAME=VALUE in lines, one for each value
	Made   int64  `json:"made"`

	Agent string   `json:"agent,omitempty"` // the name on the task
	Hue   int      `json:"hue,omitempty"`   // of that name, 1 to hues
	Claim claim.ID `json:"claim,omitempty"` // held through this daemon
	Began int64    `json:"began,omitempty"` // when the agent got the task, as far as known
	From  int64    `json:"from,omitempty"`  // when the lease began
	Until int64    `json:"until,omitempty"` // when the lease ends

	OfferedBy string `json:"offered_by,omitempty"`
	OfferedTo string `json:"offered_to,omitempty"`

	Needs  string `json:"-"` // the ids of the tasks that come first, with spaces: cards can be compared
	Edited int64  `json:"-"`

	Why      string `json:"why,omitempty"`      // why it waits, in one line
	Progress string `json:"progress,omitempty"` // what its agent says of the work
	Note     string `json:"note,omitempty"`
	Rank     string `json:"rank"` // the order of cards in a column

	Stuck bool   `json:"-"` // it can never become ready
	Asks  bool   `json:"-"` // its agent asked people something: Said
	Said  string `json:"-"` // what was said last of the task
	By    string `json:"-"` // who said so
	Since int64  `json:"-"` // when: since then it is as it is
}

// The characters of a text that a page shows.
const (
	maxTitle = 300
	maxLine  = 300
)

// text makes text by others fit for one line of a page, without invisible characters and without
// any that change the direction of the text around it.
func text(s string, limit int) string {
	s = task.OneLine(s, unicode.ReplacementChar)
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}

func milliseconds(t api.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func cardOf(t api.Task) card {
	c := card{
		ID: t.ID, Key: text(t.Key, 40), Title: cmp.Or(text(t.Title, maxTitle), "Untitled"), URL: markup.Link(t.URL),
		Status: t.Status, Standing: text(t.StatusName, 80), Priority: t.Priority, Ready: t.Ready,
		Agent: text(cmp.Or(t.AssignedTo, t.Agent), 80), Claim: t.ClaimID, From: milliseconds(t.ClaimedAt), Until: milliseconds(t.ExpiresAt),
		Progress: text(t.Progress, maxLine), Note: text(t.Note, maxLine),
	}
	c.Made, c.Edited, c.Since = milliseconds(t.CreatedAt), milliseconds(t.EditedAt), milliseconds(t.EditedAt)
	if said, ok := claim.LastSaying(t.Note); ok && said.About(t.Status) {
		c.Asks, c.Said, c.By, c.Since = said.Asks(), text(said.Why, maxLine), text(said.By, 80), said.At.UnixMilli()
	}
	c.Column = columnFor(t)
	if !columnOf(c.Column).live {
		c.From, c.Until = 0, 0 // in other columns the claim is history
	} else if c.From > 0 {
		c.Began = c.From
		if at, ok := t.ClaimID.Minted(); ok {
			c.Began = at.UnixMilli()
		}
	}
	c.Fields, c.Stuck = fieldLines(t.Fields), t.Stuck
	if c.Standing == "" {
		c.Standing = strings.ToLower(strings.ReplaceAll(string(t.Status), "_", " "))
	}
	if c.Priority == "none" {
		c.Priority = ""
	}
	if t.PriorityWord() != "none" {
		c.Word = text(t.PriorityWord(), 80)
	}
	if t.Offer != nil {
		c.OfferedBy, c.OfferedTo = text(t.Offer.From, 80), text(t.Offer.To, 80)
		c.Until = milliseconds(t.Offer.ExpiresAt)
	}
	if t.Status == task.Open && !t.Ready {
		c.Why = why(t)
	}
	for _, id := range slices.Concat(t.DependsOn, t.SubItems) {
		c.Needs += string(id) + " "
	}
	c.Hue = hue(c.Agent)
	c.Rank = rank(t, c)
	return c
}

// why returns why an open task waits.
func why(t api.Task) string {
	switch {
	case t.Offer != nil:
		return fmt.Sprintf("offered to %s by %s", text(t.Offer.To, 80), text(t.Offer.From, 80))
	case t.AssignedTo != "":
		return "for " + text(t.AssignedTo, 80)
	}
	return text(t.Reason, maxLine)
}

// fieldLines writes a task's fields for a card.
func fieldLines(fields task.Fields) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		values, isList := fields[name].([]any)
		if !isList {
			values = []any{fields[name]}
		}
		for _, v := range values {
			if said := task.FieldText(v); said != "" {
				lines = append(lines, text(strings.ReplaceAll(name, "=", " "), 80)+"="+text(said, 80))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Chips returns the fields, as a card shows them.
func (c card) Chips() []string {
	var chips []string
	for line := range strings.Lines(c.Fields) {
		chips = append(chips, strings.TrimSuffix(strings.Replace(line, "=", ": ", 1), "\n"))
	}
	return chips
}

// matches reports whether a card has all the words in its title, key, agent, priority, note, fields,
// progress or reason to wait. The modules do the same.
func (c card) matches(words string) bool {
	in := strings.ToLower(strings.Join([]string{c.Title, c.Key, c.Agent, c.Priority, c.Word, c.Why, c.Progress, c.Note, c.Fields}, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(in, word) {
			return false
		}
	}
	return true
}

// Left returns how much of the lease is left, in percent; -1 if nothing runs out.
func (c card) Left(now time.Time) int {
	if c.Until == 0 || c.From == 0 || c.Until <= c.From {
		return -1
	}
	return int(max(0, min(100, 100*(c.Until-now.UnixMilli())/(c.Until-c.From))))
}

// Self returns the card, for templates, which cannot name an embedded one.
func (c card) Self() card { return c }
