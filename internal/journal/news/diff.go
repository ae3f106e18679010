package news

import (
	"cmp"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

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
		byNow(add(claim.KindReopened))
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
