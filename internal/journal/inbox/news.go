package inbox

import (
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/news"
	"dibs/internal/task"
)

// News is the news of one task.
type News struct {
	At            time.Time
	Before, After *news.State // nil if not known, see news.Compose
	// Record is what the protocol recorded, and Changed the other changes of state.
	Record, Changed []claim.Fact
	// Leads are the agents that want to know what is finished.
	Leads []string
	// Offered is the agent that the task is offered to, if any. It gets the trigger of Offered
	// instead of one for an assignment.
	Offered string
}

// Of returns the triggers that news cause.
func Of(n News) []Trigger {
	var out []Trigger
	for _, f := range n.Record {
		f = news.ForAgents(f)
		why := f.Detail
		switch f.Kind {
		case claim.KindLost:
		case claim.KindSwept:
			why = "its lease ran out, and the task was put back to " + sweptTo(f)
		case claim.KindOverridden:
			why = "its lease ran out, and the task was taken over"
		default:
			continue
		}
		out = append(out, Trigger{Type: ClaimLost, Agent: f.Agent, From: f.Holder, At: f.At, Task: taskOf(f), Text: why})
	}
	for _, f := range n.Changed {
		if f.Kind != claim.KindCompleted {
			continue
		}
		for _, lead := range n.Leads {
			out = append(out, Trigger{Type: TaskFinished, Agent: lead, From: f.Agent, At: n.At, Task: taskOf(f), Text: f.Summary})
		}
	}
	if n.After != nil {
		was := ""
		if n.Before != nil {
			was = claim.AssignedAgent(n.Before.Task)
		}
		if is := claim.AssignedAgent(n.After.Task); is != "" && is != was && is != n.Offered && n.After.Status == task.Open {
			out = append(out, Trigger{Type: TaskAssigned, Agent: is, At: n.At, Task: n.After.Task})
		}
	}
	// No agent can have such a name: it is a person's.
	return slices.DeleteFunc(out, func(t Trigger) bool { return task.ValidateAgent(t.Agent) != nil })
}

// sweptTo returns the status that a sweep gave a task: OPEN, or BLOCKED after too many tries.
func sweptTo(f claim.Fact) string {
	if f.Status == task.Blocked {
		return string(task.Blocked)
	}
	return string(task.Open)
}

// Offered returns the trigger for the offer that e makes; false if e makes none. An offer is the
// end of a claim that names another agent. known is the task's state, nil if not known.
func Offered(e claim.Fact, known *news.State) (Trigger, bool) {
	if e.Kind != claim.KindOffered {
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

// Available returns the trigger that tells an agent that there are tasks to claim.
func Available(agent string, at time.Time) Trigger {
	return Trigger{Type: TasksAvailable, Agent: agent, At: at}
}

func taskOf(f claim.Fact) task.Task {
	return task.Task{ID: f.Task, Title: f.Title, URL: f.URL, Status: f.Status, Priority: f.Priority}
}
