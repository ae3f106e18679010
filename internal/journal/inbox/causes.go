package inbox

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"dibs/internal/claim"
	"dibs/internal/journal/news"
	"dibs/internal/outbox/wording"
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
	for _, f := range slices.Concat(n.Record, n.Changed) {
		if f.Returned && f.Holder != f.Agent {
			out = append(out, Trigger{Type: TaskAssigned, Agent: f.Holder, From: cmp.Or(f.Agent, f.By), At: n.At, Task: taskOf(f), Text: f.Summary})
		}
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

// mention matches an @ and a name in a title.
var mention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`@[\p{L}\p{N}_][\p{L}\p{N}_.-]*`)
})

// Addressed returns the agents that a row of the mesh log is for: those in its column "to", or
// else those that its title names with an @. everybody is set if it is for all agents. known are
// the known agents, whose names may have spaces. A daemon's entries about claims are for nobody.
func Addressed(r wording.Row, known []string) (names []string, everybody bool) {
	if _, message := wording.ParseMessageID(r.EntryID); r.EntryID != "" && !message {
		return nil, false
	}
	add := func(name string) {
		name = strings.TrimSpace(name)
		if strings.EqualFold(name, Everybody) {
			everybody = true
		} else if task.ValidateAgent(name) == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if to := strings.TrimSpace(r.To); to != "" {
		if slices.Contains(known, to) {
			add(to)
			return names, everybody
		}
		for _, name := range strings.FieldsFunc(to, func(r rune) bool { return r == ',' || r == ';' || r == '\n' }) {
			add(strings.TrimPrefix(strings.TrimSpace(name), "@"))
		}
		return names, everybody
	}
	for _, at := range mention().FindAllStringIndex(r.Title, -1) {
		if before, _ := utf8.DecodeLastRuneInString(r.Title[:at[0]]); at[0] > 0 && (unicode.IsLetter(before) || unicode.IsDigit(before)) {
			continue // a mail address
		}
		// A known name may contain spaces.
		rest := r.Title[at[0]+1:]
		if name := longest(known, rest); name != "" {
			add(name)
			continue
		}
		add(strings.TrimRight(r.Title[at[0]+1:at[1]], ".-"))
	}
	return names, everybody
}

// longest returns the longest of the names that text begins with, as a whole word; empty for
// none.
func longest(names []string, text string) (found string) {
	for _, name := range names {
		rest, ok := strings.CutPrefix(text, name)
		next, _ := utf8.DecodeRuneInString(rest)
		if ok && len(name) > len(found) && (rest == "" || !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_') {
			found = name
		}
	}
	return found
}

// Messages returns the triggers for a row of the mesh log: one for each agent that it is for,
// except its author. known are the agents here.
func Messages(r wording.Row, known []string) []Trigger {
	names, everybody := Addressed(r, known)
	if everybody {
		for _, name := range known {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var out []Trigger
	for _, name := range names {
		if name == r.From {
			continue
		}
		text := r.Text
		if strings.TrimSpace(text) == "" {
			text = r.Title
		}
		out = append(out, Trigger{
			Type: Message, Agent: name, At: r.Created, From: task.OneLine(r.From, -1), Text: text, Key: "row " + string(r.Page),
		})
	}
	return out
}

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
