package feed

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// State is a task as agents are told of it.
type State struct {
	task.Task
	// Ready is whether the task can be claimed by anybody.
	Ready bool
}

// NewState returns the state of t, whose unfinished dependencies are blockers.
// It does not depend on the time: a task with a stale claim on it is not ready
// before the claim is taken off.
func NewState(t task.Task, blockers []task.ID) State {
	// At the zero time no claim is stale.
	d := claim.Decide(t, "", blockers, time.Time{}, claim.Policy{})
	return State{Task: t, Ready: t.Status == task.Open && d.Code == ""}
}

// holder is who has the task. The name on a finished task is history, as is one
// on a task that was reopened after its completion, unless it was put there since.
func (s State) holder() string {
	if s.Status.Finished() || s.marked() {
		return ""
	}
	if claim.ParseToken(s.Token).Done {
		return claim.Assignee(s.Task)
	}
	return s.ClaimedBy
}

// marked reports whether the task has the mark of a withdrawal or a sweep on it:
// nobody works under it, and it is about to be reopened.
func (s State) marked() bool { return claim.ParseToken(s.Token).Void }

// handedOut reports whether the task was set to OPEN with a claim on it: it was told then
// that the claim is over.
func (s State) handedOut() bool { return s.Status == task.Open && s.claim() != "" }

// claim is the claim that the task shows, if it shows one of our form.
func (s State) claim() claim.ID { return claim.ParseToken(s.Token).ID }

// holds is who has the task, and by which claim.
func (s State) holds() (agent string, id claim.ID) {
	if agent = s.holder(); agent != "" && !claim.ParseToken(s.Token).Done {
		id = s.claim()
	}
	return agent, id
}

// Unclaimed is what a task that is seen for the first time may be thought to have
// been before.
func (s State) Unclaimed() State {
	s.ClaimedBy, s.ClaimedAt, s.Token, s.Ready = "", time.Time{}, "", false
	if s.Status != task.Open && s.Status != task.Unknown && !s.Status.Finished() {
		s.Status = task.Open
	}
	return s
}
