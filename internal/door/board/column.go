package board

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
)

// column shows the tasks of one status, or of people among those in progress.
type column struct {
	Key    string      // in addresses
	Status task.Status // whose name it has
	Name   string
	Empty  string // the text of an empty column
	live   bool   // the names on its tasks have live claims
	Over   bool   // its tasks are finished: it is folded
	Always bool   // it is shown even when it is empty
}

// people is the key of the column of tasks in progress that no agent has.
const people = "PEOPLE"

var columns = []column{
	{Status: task.Open, Name: "Open", Empty: "Nothing is open.", live: true, Always: true},
	{Status: task.InProgress, Name: "In progress", Empty: "No agent works on anything.", live: true, Always: true},
	{Key: people, Status: task.InProgress, Name: "In progress", Empty: "No person works on anything."},
	{Status: task.Review, Name: "Review", Empty: "Nothing waits for a decision."},
	{Status: task.Blocked, Name: "Blocked", Empty: "Nothing is blocked.", Always: true},
	{Status: task.Failed, Name: "Failed", Empty: "Nothing has failed."},
	{Status: task.Completed, Name: "Completed", Empty: "Nothing is completed yet.", Over: true, Always: true},
	{Status: task.Cancelled, Name: "Cancelled", Empty: "Nothing was cancelled.", Over: true},
	{Status: task.Unknown, Name: "Other", Empty: "Nothing has another status."},
}

func init() {
	for i := range columns {
		if columns[i].Key == "" {
			columns[i].Key = string(columns[i].Status)
		}
	}
}

// columnFor returns the key of the column of t. A person's task has no lease.
func columnFor(t api.Task) string {
	if t.Status == task.InProgress && t.ClaimID == "" && t.ExpiresAt.IsZero() {
		return people
	}
	return string(t.Status)
}

func columnOf(key string) column {
	i := slices.IndexFunc(columns, func(c column) bool { return c.Key == key })
	if i < 0 {
		return column{Key: key, Name: key}
	}
	return columns[i]
}

// called returns the column under the board's own name, if it has one.
func (g glance) called(c column) column {
	if name := g.words[c.Status]; name != "" && name != string(c.Status) {
		c.Name = text(name, 80)
	}
	if c.Key == people {
		c.Name += ": people"
	}
	return c
}

// rank sorts a column. Open tasks that are ready come first, in the daemon's order, see task.Before;
// of held ones, that whose lease ends first; of finished ones, the last edited.
func rank(t api.Task, c card) string {
	switch {
	case columnOf(c.Column).Over:
		return fmt.Sprintf("%014d%s", 99999999999999-milliseconds(t.EditedAt), t.ID)
	case c.Column == string(task.InProgress):
		return heldRank(c)
	}
	waiting := 0
	if t.Status == task.Open && !t.Ready {
		waiting = 1
	}
	// Notion has the time of creation to the minute; ours may be a moment beside it.
	made := t.CreatedAt.Round(time.Minute).Unix() / 60
	number, err := strconv.ParseInt(t.Key[strings.LastIndexByte(t.Key, '-')+1:], 10, 64)
	if err != nil {
		number = 0
	}
	return fmt.Sprintf("%d%d%02d%010d%019d%s", waiting, urgency(t.Priority), task.MostUnblocks-t.Unblocks, made, number, t.ID)
}

func heldRank(c card) string { return fmt.Sprintf("%014d%s", c.Until, c.ID) }

func urgency(priority string) int {
	if i := slices.Index([]string{"critical", "high", "medium", "low"}, priority); i >= 0 {
		return i
	}
	return 4
}
