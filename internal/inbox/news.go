package inbox

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/task"
)

// News is what happened to one task, as it is told.
type News struct {
	At            time.Time
	Before, After *feed.State // nil if not known, see feed.Tell
	Events        []feed.Event
	// Leads are the agents that want to know what is finished.
	Leads []string
	// Offered is the agent that the task is offered to, if it is to one; that is told
	// otherwise, see Offered.
	Offered string
}

// Of says what news mean, and to whom.
func Of(n News) []Trigger {
	var out []Trigger
	for _, e := range n.Events {
		t := Trigger{At: e.At, Task: taskOf(e), Text: e.Detail}
		if t.At.IsZero() {
			t.At = n.At
		}
		switch e.Kind {
		case feed.ClaimLost, feed.Overridden, feed.Swept:
			t.Type, t.Agent, t.From = ClaimLost, e.Agent, e.Holder
			if e.Kind == feed.Swept {
				t.Text = "its lease ran out, and the task was put back to " + sweptTo(e)
			}
			if e.Kind == feed.Overridden {
				t.Text = "its lease ran out, and the task was taken over"
			}
			out = append(out, t)
		case feed.Completed:
			for _, lead := range n.Leads {
				t.Type, t.Agent, t.From, t.Text = TaskFinished, lead, e.Agent, e.Summary
				out = append(out, t)
			}
		}
	}
	if n.After != nil {
		was := ""
		if n.Before != nil {
			was = claim.Assignee(n.Before.Task)
		}
		if is := claim.Assignee(n.After.Task); is != "" && is != was && is != n.Offered && n.After.Status == task.Open {
			out = append(out, Trigger{Type: TaskAssigned, Agent: is, At: n.At, Task: n.After.Task})
		}
	}
	return keepNamed(out)
}

// sweptTo is the status that a sweep has given a task: OPEN, unless it was tried too often.
func sweptTo(e feed.Event) string {
	if e.Status == task.Blocked {
		return string(task.Blocked)
	}
	return string(task.Open)
}

// Offered is the trigger of an offer: the release e of a claim says to whom.
func Offered(e claim.Event, known *feed.State) (Trigger, bool) {
	if e.Kind != claim.KindReleased || e.Holder == "" {
		return Trigger{}, false
	}
	t := Trigger{
		Type: TaskOffered, Agent: e.Holder, From: e.Agent, At: e.At, Text: e.Summary,
		Task: task.Task{ID: e.Task, Title: e.Title, URL: e.URL, Status: task.Open},
	}
	if known != nil {
		t.Task = known.Task
		t.Task.Status = task.Open
	}
	return t, true
}

// Available is what an agent is told when there are tasks again.
func Available(agent string, at time.Time) Trigger {
	return Trigger{Type: TasksAvailable, Agent: agent, At: at}
}

func taskOf(e feed.Event) task.Task {
	return task.Task{ID: e.Task, Title: e.Title, URL: e.URL, Status: e.Status, Priority: e.Priority}
}

// keepNamed leaves out those for names that no agent can have: they are of people.
func keepNamed(all []Trigger) []Trigger {
	var out []Trigger
	for _, t := range all {
		if task.ValidateAgent(t.Agent) == nil {
			out = append(out, t)
		}
	}
	return out
}
