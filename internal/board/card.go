package board

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/claim"
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

	Agent string   `json:"agent,omitempty"` // the name on the task
	Hue   int      `json:"hue,omitempty"`   // of that name, 1 to hues
	Claim claim.ID `json:"claim,omitempty"` // held through this daemon
	From  int64    `json:"from,omitempty"`  // when the lease began
	Until int64    `json:"until,omitempty"` // when the lease ends

	OfferedBy string `json:"offered_by,omitempty"`
	OfferedTo string `json:"offered_to,omitempty"`

	Needs string `json:"-"` // the ids of the tasks that come first, with spaces: cards can be compared

	Why      string `json:"why,omitempty"`      // why it waits, in one line
	Progress string `json:"progress,omitempty"` // what its agent says of the work
	Note     string `json:"note,omitempty"`
	Rank     string `json:"rank"` // the order of cards in a column
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

// hues is the number of colours for names.
const hues = 8

func hue(name string) int {
	if name == "" {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32()%hues) + 1
}

// link returns an address if a browser may be sent there, or nothing.
func link(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	return u.String()
}

func milliseconds(t api.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func cardOf(t api.Task) card {
	c := card{
		ID: t.ID, Key: text(t.Key, 40), Title: cmp.Or(text(t.Title, maxTitle), "Untitled"), URL: link(t.URL),
		Status: t.Status, Standing: text(t.StatusName, 80), Priority: t.Priority, Ready: t.Ready,
		Agent: text(cmp.Or(t.AssignedTo, t.Agent), 80), Claim: t.ClaimID, From: milliseconds(t.ClaimedAt), Until: milliseconds(t.ExpiresAt),
		Progress: text(t.Progress, maxLine), Note: text(t.Note, maxLine),
	}
	if !columnOf(t.Status).live {
		c.From, c.Until = 0, 0 // in other columns the claim is history
	}
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
	c.Rank = rank(t)
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

// rank sorts a column: ready before waiting, and then in the order of task.Before, as far as it
// matters to people. In columns of finished tasks, the last edited comes first.
func rank(t api.Task) string {
	c := columnOf(t.Status)
	if c.over {
		return fmt.Sprintf("%014d%s", 99999999999999-milliseconds(t.EditedAt), t.ID)
	}
	waiting, at := 0, t.CreatedAt
	if t.Status == task.Open && !t.Ready {
		waiting = 1
	}
	if t.Status == task.InProgress {
		return fmt.Sprintf("%014d%s", milliseconds(at), t.ID)
	}
	return fmt.Sprintf("%d%d%02d%014d%s", waiting, urgency(t.Priority), task.MostUnblocks-t.Unblocks, milliseconds(at), t.ID)
}

func urgency(priority string) int {
	if i := slices.Index([]string{"critical", "high", "medium", "low"}, priority); i >= 0 {
		return i
	}
	return 4
}

// column shows the tasks of one status.
type column struct {
	Status task.Status
	Name   string
	Empty  string // the text of an empty column
	live   bool   // the names on its tasks have live claims
	over   bool   // its tasks are finished
	Always bool   // it is shown even when it is empty
}

var columns = []column{
	{Status: task.Open, Name: "Open", Empty: "Nothing is open.", live: true, Always: true},
	{Status: task.InProgress, Name: "In progress", Empty: "Nobody works on anything.", live: true, Always: true},
	{Status: task.Review, Name: "Review", Empty: "Nothing waits for a decision."},
	{Status: task.Blocked, Name: "Blocked", Empty: "Nothing is blocked.", Always: true},
	{Status: task.Failed, Name: "Failed", Empty: "Nothing has failed."},
	{Status: task.Completed, Name: "Completed", Empty: "Nothing is completed yet.", over: true, Always: true},
	{Status: task.Cancelled, Name: "Cancelled", Empty: "Nothing was cancelled.", over: true},
	{Status: task.Unknown, Name: "Other", Empty: "Nothing has another status."},
}

func columnOf(s task.Status) column {
	i := slices.IndexFunc(columns, func(c column) bool { return c.Status == s })
	if i < 0 {
		return column{Status: s, Name: string(s)}
	}
	return columns[i]
}

// matches reports whether a card has all the words in its title, key, agent, priority, note,
// progress or reason to wait. The modules do the same.
func (c card) matches(words string) bool {
	in := strings.ToLower(strings.Join([]string{c.Title, c.Key, c.Agent, c.Priority, c.Word, c.Why, c.Progress, c.Note}, "\n"))
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
