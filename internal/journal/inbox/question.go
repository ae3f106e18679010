package inbox

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// asking is how long an agent gets the answers to a question of its.
const asking = 14 * 24 * time.Hour

// Question is an agent's open question to people about a task. Times are Notion's.
type Question struct {
	// ID is the id of the fact that asked it.
	ID    string    `json:"id"`
	Task  task.ID   `json:"task"`
	Agent string    `json:"agent"`
	At    time.Time `json:"at"`
	// Until is when the question ends.
	Until time.Time `json:"until"`
	// Last is set once the task is open again, finished, or claimed: then its comments are read
	// one last time.
	Last bool `json:"last,omitempty"`
}

// Asked returns the question that a fact asks; false if it asks none.
func Asked(e claim.Fact) (Question, bool) {
	if !e.Asked {
		return Question{}, false
	}
	return Question{ID: e.ID, Task: e.Task, Agent: e.Agent, At: e.At, Until: e.At.Add(asking)}, true
}

// See checks the state of q's task at now; known is false if the task is gone. over is set if
// the question ends: there is no page any more, or its time is over. next is the question with
// Last set if the task is open again, finished or claimed. If it is open again, opened is the
// trigger for that.
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

// Reopened is the text of the trigger for a task that is open again.
const Reopened = "the task is open again"
