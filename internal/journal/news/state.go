package news

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// State is a task as published in the feed.
type State struct {
	task.Task
	// Ready is set if any agent can claim the task.
	Ready bool
}

// NewState returns the state of t with its unfinished dependencies. It does not depend
// on the time: a task with a stale claim is not ready until the claim is removed.
func NewState(t task.Task, blockers []task.ID) State {
	// At the zero time no claim is stale.
	d := claim.Decide(t, "", blockers, time.Time{}, claim.Policy{})
	return State{Task: t, Ready: t.Status == task.Open && d.Code == ""}
}

// beside reports whether the task is none for agents, and no agent has it: what becomes of it is
// no news to them.
func (s State) beside() bool { return s.Outside != "" && s.claim() == "" }

// holder returns the agent that has the task; empty for none. The name on a finished task
// does not count, nor does the one left on a task that was reopened after its completion,
// unless somebody has assigned the task since. The column of assignees goes before the claim.
func (s State) holder() string {
	if s.Status.Finished() || s.marked() {
		return ""
	}
	if s.Assignee != "" {
		return s.Assignee
	}
	if claim.ParseToken(s.Token).Done {
		return claim.Assignee(s.Task)
	}
	return s.ClaimedBy
}

// marked reports whether the page has a mark of a withdrawal or a sweep: nobody has the
// task, and it is about to be reopened.
func (s State) marked() bool { return claim.ParseToken(s.Token).Void }

// handedOut reports whether the task was set to OPEN with a claim on it. The feed has said
// then that the claim is over.
func (s State) handedOut() bool { return s.Status == task.Open && s.claim() != "" }

// claim returns the id of the claim on the page; empty if there is none in our form.
func (s State) claim() claim.ID { return claim.ParseToken(s.Token).ID }

// holds returns the agent that has the task, and its claim.
func (s State) holds() (agent string, id claim.ID) {
	if agent = s.holder(); agent == s.ClaimedBy && !claim.ParseToken(s.Token).Done {
		id = s.claim()
	}
	return agent, id
}

// Unclaimed returns the state in which a task is assumed to have been before it was first
// seen: open and unclaimed, if it is being worked on.
func (s State) Unclaimed() State {
	s.ClaimedBy, s.ClaimedAt, s.Token, s.Ready = "", time.Time{}, "", false
	s.Assignee, s.AssigneeIsAgent = "", false
	if s.Status != task.Open && s.Status != task.Unknown && !s.Status.Finished() {
		s.Status = task.Open
	}
	return s
}
