package feed

import (
	"cmp"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Diff says what happened to a task between two states of it. before is nil for
// a task that agents were never told of; a task that is gone is told of as
// trashed. What differs without mattering to agents, such as the date of a claim
// that was renewed, makes no event.
func Diff(before *State, after State) []Event {
	switch {
	case before == nil && (after.Trashed || after.Status.Finished()):
		return nil // seen because another task depends on it, or after its end
	case before == nil:
		return append([]Event{about(after, Created)}, changes(after.Unclaimed(), after)...)
	case before.Trashed && after.Trashed:
		return nil
	case after.Trashed:
		e := about(after, Trashed)
		e.Agent, e.Claim = before.holds()
		return []Event{e}
	case before.Trashed:
		e := about(after, Restored)
		e.Agent, e.Claim = after.holds()
		return append([]Event{e}, changes(*before, after)...)
	}
	return changes(*before, after)
}

func about(s State, kind Kind) Event {
	return Event{Kind: kind, Task: s.ID, Title: s.Title, URL: s.URL, Status: s.Status, Priority: s.Priority}
}

// changes is Diff for a task that is, and was, on the board.
func changes(before, after State) []Event {
	var events []Event
	// Each event concerns the holder before, unless it says otherwise.
	add := func(kind Kind) *Event {
		e := about(after, kind)
		e.Agent, e.Claim = before.holds()
		events = append(events, e)
		return &events[len(events)-1]
	}
	byNow := func(e *Event) { e.Agent, e.Claim = after.holds() }

	moved := before.Status != after.Status
	under := after.Status == task.Open || after.Status == task.InProgress // may be worked on
	switch {
	case moved && after.Status == task.Completed:
		byDoer(add(Completed), after)
	case moved && after.Status == task.Review:
		byDoer(add(Review), after)
	case moved && after.Status == task.Failed:
		add(Failed)
	case moved && after.Status == task.Cancelled:
		add(Cancelled)
	case moved && after.Status == task.Blocked:
		add(Blocked)
	case moved && under && (before.Status.Finished() || before.Status == task.Review || before.Status == task.Failed):
		byNow(add(Reopened))
	case moved && under && before.Status == task.Blocked:
		byNow(add(Unblocked))
	}

	was, is := before.holder(), after.holder()
	switch {
	case is != "" && is != was && was != "":
		add(Reassigned).Holder = is
	case is != "" && is != was,
		is != "" && before.claim() != after.claim() && after.claim() != "" && before.claim() != "",
		is != "" && claim.Assignee(before.Task) == is && !after.ClaimedAt.IsZero() && after.Status == task.InProgress:
		byNow(add(Claimed))
	case was != "" && under && (is == "" && !before.handedOut() || before.Status == task.InProgress && after.Status == task.Open):
		add(Released)
	}

	edited := parts(before, after)
	if was != is || before.claim() != after.claim() {
		// A claim may come with a lease of its own, and takes it along.
		edited = slices.DeleteFunc(edited, func(part string) bool { return part == PartTimeout })
	}
	if moved && len(events) == 0 && !before.marked() && !after.marked() {
		edited = append(edited, PartStatus)
	}
	if len(edited) > 0 {
		e := add(Edited)
		e.Changed = edited
		if is != "" {
			byNow(e)
		}
	}
	if after.Ready && !before.Ready {
		e := add(Ready)
		e.Agent, e.Claim = "", "" // it concerns everybody
	}
	return events
}

// byDoer has e concern who did the work, whose name is on the task that is done.
func byDoer(e *Event, after State) {
	if after.ClaimedBy != "" {
		e.Agent, e.Claim = after.ClaimedBy, cmp.Or(after.claim(), e.Claim)
	}
}

// parts names what a person has edited of a task, beside its status and its claim.
func parts(before, after State) []string {
	var names []string
	for _, part := range []struct {
		name    string
		changed bool
	}{
		{PartTitle, before.Title != after.Title},
		{PartPriority, before.Priority != after.Priority},
		{PartTimeout, before.Timeout != after.Timeout},
		{PartDependencies, !slices.Equal(sorted(before.DependsOn), sorted(after.DependsOn))},
	} {
		if part.changed {
			names = append(names, part.name)
		}
	}
	return names
}

// sorted returns the ids in an order of their own: a relation has none.
func sorted(ids []task.ID) []task.ID { return slices.Compact(slices.Sorted(slices.Values(ids))) }
