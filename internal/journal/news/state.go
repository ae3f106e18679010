package news

import (
	"cmp"
	"slices"
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

// The parts of a task that a fact of [claim.KindEdited] names.
const (
	PartTitle        = "title"
	PartPriority     = "priority"
	PartTimeout      = "timeout"
	PartDependencies = "dependencies"
	PartStatus       = "status" // a change of status that is none of the other kinds
)

// Diff returns what happened to a task between two states, as facts. before is nil if
// the task was never published. A task that is gone has to be passed as trashed.
// Differences that do not matter to agents, such as the date of a renewed claim, make
// no fact.
func Diff(before *State, after State) []claim.Fact {
	switch {
	case after.beside() && (before == nil || before.beside()):
		return nil
	case before == nil && (after.Trashed || after.Status.Finished()):
		return nil // it was first seen after its end, or because another task depends on it
	case before == nil:
		return append([]claim.Fact{about(after, claim.KindCreated)}, changes(after.Unclaimed(), after)...)
	case before.Trashed && after.Trashed:
		return nil
	case after.Trashed:
		e := about(after, claim.KindTrashed)
		e.Agent, e.Claim = before.holds()
		return []claim.Fact{e}
	case before.Trashed:
		e := about(after, claim.KindRestored)
		e.Agent, e.Claim = after.holds()
		return append([]claim.Fact{e}, changes(*before, after)...)
	}
	return changes(*before, after)
}

func about(s State, kind claim.Kind) claim.Fact {
	return claim.Fact{Kind: kind, Task: s.ID, Key: s.Key, Title: s.Title, URL: s.URL, Status: s.Status, Priority: s.Priority}
}

// changes is Diff for a task that was on the board, and still is.
func changes(before, after State) []claim.Fact {
	var facts []claim.Fact
	// Each fact is about the former holder, unless byNow or byDoer is used.
	add := func(kind claim.Kind) *claim.Fact {
		e := about(after, kind)
		e.Agent, e.Claim = before.holds()
		facts = append(facts, e)
		return &facts[len(facts)-1]
	}
	byNow := func(e *claim.Fact) { e.Agent, e.Claim = after.holds() }

	moved := before.Status != after.Status
	under := after.Status == task.Open || after.Status == task.InProgress // may be worked on
	switch {
	case moved && after.Status == task.Completed:
		byDoer(add(claim.KindCompleted), after)
	case moved && after.Status == task.Review:
		byDoer(add(claim.KindReview), after)
	case moved && after.Status == task.Failed:
		add(claim.KindFailed)
	case moved && after.Status == task.Cancelled:
		add(claim.KindCancelled)
	case moved && after.Status == task.Blocked:
		add(claim.KindBlocked)
	case moved && under && (before.Status.Finished() || before.Status == task.Review || before.Status == task.Failed):
		e := add(claim.KindReopened)
		byNow(e)
		token := claim.ParseToken(before.Token) // where dibs did it, the token went before
		if token.By != "" && before.Status == task.Review && (after.Status == task.Open || e.Agent != "") {
			e.Returned, e.Holder, e.Former = true, token.By, token.ID
		}
	case moved && under && before.Status == task.Blocked:
		byNow(add(claim.KindUnblocked))
	}

	was, is := before.holder(), after.holder()
	switch {
	case is != "" && is != was && was != "":
		add(claim.KindReassigned).Holder = is
	case is != "" && is != was,
		is != "" && before.claim() != after.claim() && after.claim() != "" && before.claim() != "",
		is != "" && claim.Assignee(before.Task) == is && before.ClaimedAt.IsZero() && !after.ClaimedAt.IsZero() && after.Status == task.InProgress:
		byNow(add(claim.KindClaimed))
	case was != "" && under && (is == "" && !before.handedOut() || before.ClaimedBy != "" && before.Status == task.InProgress && after.Status == task.Open):
		add(claim.KindReleased)
	}

	edited := parts(before, after)
	if was != is || before.claim() != after.claim() {
		// A claim may set a lease length, and removes it at its end: nobody edited that.
		edited = slices.DeleteFunc(edited, func(part string) bool { return part == PartTimeout })
	}
	if moved && len(facts) == 0 && !before.marked() && !after.marked() {
		edited = append(edited, PartStatus)
	}
	if len(edited) > 0 {
		e := add(claim.KindEdited)
		e.Changed = edited
		if is != "" {
			byNow(e)
		}
	}
	if after.Ready && !before.Ready {
		e := add(claim.KindReady)
		e.Agent, e.Claim = "", "" // it is about no agent
	}
	return facts
}

// byDoer makes e about the agent that did the work: its name is on the finished task.
func byDoer(e *claim.Fact, after State) {
	if after.ClaimedBy != "" {
		e.Agent, e.Claim = after.ClaimedBy, cmp.Or(after.claim(), e.Claim)
	}
}

// parts returns the parts of a task that a person has edited, other than status and claim.
func parts(before, after State) []string {
	var names []string
	for _, part := range []struct {
		name    string
		changed bool
	}{
		{PartTitle, before.Title != after.Title},
		{PartPriority, before.Priority != after.Priority},
		{PartTimeout, before.Timeout != after.Timeout},
		{PartDependencies, !slices.Equal(sorted(before.Awaited()), sorted(after.Awaited()))},
	} {
		if part.changed {
			names = append(names, part.name)
		}
	}
	return names
}

// sorted returns the ids sorted, because the order of a relation means nothing.
func sorted(ids []task.ID) []task.ID { return slices.Compact(slices.Sorted(slices.Values(ids))) }
