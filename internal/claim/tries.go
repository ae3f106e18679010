package claim

import (
	"fmt"
	"strings"
	"time"

	"dibs/internal/task"
)

// Try is an attempt at the work on a task that failed while the task stayed claimable: the
// agent reported failure and the task was to be tried again, or its claim went stale.
type Try struct {
	Agent string    `json:"agent"`
	At    time.Time `json:"at"` // when it was over, in Notion's time
	// Failed is set if the agent reported failure; otherwise its lease ran out.
	Failed bool   `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Tried says how a fact changes the list of tries at its task, which a Ledger keeps.
type Tried string

// The meanings of facts for the tries. Most facts have none.
const (
	// TriedAgain: one more try, see Fact.Try.
	TriedAgain Tried = "again"
	// TriedOver: the tries so far are forgotten. The task is done, waits for a person, or was
	// reopened.
	TriedOver Tried = "over"
)

// The limits of a history, which must fit into a line of a note.
const (
	mostTries  = 6
	longestWhy = 100
)

// historyOf describes tries in one line.
func historyOf(tries []Try) string {
	text := fmt.Sprintf("tried %d times", len(tries))
	if len(tries) == 1 {
		text = "tried once"
	}
	if len(tries) > mostTries {
		tries = tries[len(tries)-mostTries:]
		text += fmt.Sprintf(", the last %d", mostTries)
	}
	said := make([]string, len(tries))
	for i, t := range tries {
		what := "the claim of " + t.Agent + " ran out"
		if t.Failed {
			what = t.Agent + " failed"
		}
		said[i] = what + " at " + noteTime(t.At)
		if why := task.OneLine(t.Why, longestWhy); why != "" {
			said[i] += " (" + why + ")"
		}
	}
	return text + ": " + strings.Join(said, ", ")
}
