package inbox

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Told is what agents were told of a task by the board, where daemons share one inbox and one
// of them tells.
type Told struct {
	// Edited is that of the task when it was told of.
	Edited    time.Time `json:"edited,omitzero"`
	Assignee  string    `json:"assignee,omitempty"`
	Completed bool      `json:"completed,omitempty"`
	// Done is the claim that completed it last, as far as its page says so.
	Done claim.ID `json:"done,omitempty"`
}

// Same reports whether there is nothing to be told between two of them.
func (t Told) Same(other Told) bool {
	t.Edited = other.Edited
	return t == other
}

// Board says what is told of a task, which was told of as was, nil if it never was, and what
// is to be remembered of it; nil if nothing is. offered is whom it is offered to.
func Board(was *Told, t task.Task, offered string, at time.Time) (is *Told, news []Trigger) {
	tok := claim.ParseToken(t.Token)
	if was == nil && (t.Trashed || t.Status.Finished()) {
		return nil, nil // seen because another task depends on it, or after its end
	}
	var before Told
	if was != nil {
		before = *was
	}
	if t.Edited.Before(before.Edited) {
		return was, nil // a copy of the board that is behind
	}
	now := Told{Edited: t.Edited, Assignee: claim.Assignee(t), Completed: t.Status == task.Completed, Done: before.Done}
	if task.ValidateAgent(now.Assignee) != nil {
		now.Assignee = "" // of nobody who could be told, and of any length
	}
	if t.Trashed {
		now.Completed = before.Completed
	}
	if now.Completed && tok.Done {
		now.Done = tok.ID
	}
	if now.Completed && !before.Completed {
		finished := Trigger{Type: TaskFinished, Agent: Leads, From: t.ClaimedBy, At: at, Task: t}
		if now.Done != before.Done {
			finished.Key = finishedKey(now.Done)
		}
		news = append(news, finished)
	}
	if now.Assignee != "" && now.Assignee != before.Assignee && now.Assignee != offered && t.Status == task.Open {
		news = append(news, keepNamed([]Trigger{{Type: TaskAssigned, Agent: now.Assignee, At: at, Task: t}})...)
	}
	return &now, news
}
