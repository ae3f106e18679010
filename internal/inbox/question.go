package inbox

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// asking is how long an agent is told the answers to a question that it has asked people.
const asking = 14 * 24 * time.Hour

// Question is one that an agent has asked people about a task, and waits for the answer of.
// Times are Notion's.
type Question struct {
	// ID is that of the fact.
	ID    string    `json:"id"`
	Task  task.ID   `json:"task"`
	Agent string    `json:"agent"`
	At    time.Time `json:"at"`
	// Until is when the agent is told no more.
	Until time.Time `json:"until"`
	// Last is set once a person has opened the task again, or it is finished, or somebody
	// has it: the comments are looked at once more then.
	Last bool `json:"last,omitempty"`
}

// Asked is the question that a fact asks, if it does.
func Asked(e claim.Fact) (Question, bool) {
	if !e.Asked {
		return Question{}, false
	}
	return Question{ID: e.ID, Task: e.Task, Agent: e.Agent, At: e.At, Until: e.At.Add(asking)}, true
}

// See says what the task shows of the answer to q at now; known is false for a task that
// is not there any more. over says that the agent is told no more: there is no page to look
// at, or the time is over. If the task is open again, or there will be no other answer
// because it is finished or somebody has it, q comes back as the last; if a person has
// opened it, with a trigger.
func (q Question) See(t task.Task, known bool, now time.Time) (next Question, opened *Trigger, over bool) {
	switch {
	case !known, t.Trashed, now.After(q.Until):
		return q, nil, true
	case q.Last:
	case t.Status == task.InProgress, t.Status.Finished():
		q.Last = true
	case t.Status == task.Open:
		q.Last = true
		opened = &Trigger{Type: Comment, Agent: q.Agent, At: now, Task: t, Text: Reopened, Key: "reopened " + q.ID}
	}
	return q, opened, false
}

// Reopened is the text of the trigger for a task that a person has opened again.
const Reopened = "the task is open again"
