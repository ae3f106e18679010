package feed

import (
	"cmp"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

var protocolKinds = map[claim.Kind]Kind{
	claim.KindLost: ClaimLost, claim.KindExpiring: LeaseExpiring, claim.KindSwept: Swept,
	claim.KindOverridden: Overridden, claim.KindConflict: Conflict,
}

// Of turns an event of the protocol's record into what agents are told; false
// if they are not told, or if the change of the task's state says it.
func Of(e claim.Event) (Event, bool) {
	kind, ok := protocolKinds[e.Kind]
	if !ok {
		return Event{}, false
	}
	out := Event{
		At: e.At, Kind: kind, Task: e.Task, Title: e.Title, URL: e.URL,
		Agent: e.Agent, By: e.By, Holder: e.Holder, Claim: e.Claim, ExpiresAt: e.Expires, Detail: e.Detail,
	}
	switch kind {
	case Overridden: // told to whom it happened
		out.Agent, out.Holder, out.Claim = e.Holder, e.Agent, ""
	case Swept:
		out.Holder = "" // nobody
	}
	return out, true
}

// Tell says what agents are told when the protocol records something about a
// task that was in the state before, nil if they know nothing of it, and is in
// the state after, nil if that is not to be told yet. What the record says of a
// change of state is not said a second time.
func Tell(before, after *State, record ...claim.Event) []Event {
	var events, changed []Event
	if after != nil {
		changed = Diff(before, *after)
	}
	for _, r := range record {
		e, told := Of(r)
		if !told {
			summarise(changed, r)
			continue
		}
		if known := cmp.Or(after, before); known != nil {
			e.Status, e.Priority = known.Status, known.Priority
		}
		if e.Claim == "" && before != nil && before.holder() == e.Agent {
			e.Claim = before.claim()
		}
		events = append(events, e)
		changed = slices.DeleteFunc(changed, func(c Event) bool { return saidBy(e, c) })
	}
	return append(events, changed...)
}

// summarise adds what an agent said at the end of its claim to the change that
// it made of the task, and which user asked for a change.
func summarise(changed []Event, r claim.Event) {
	for i := range changed {
		changed[i].By = cmp.Or(changed[i].By, r.By)
		if changed[i].Agent == r.Agent {
			changed[i].Summary = r.Summary
		}
	}
}

// saidBy reports whether the change c is what e is about.
func saidBy(e, c Event) bool {
	switch e.Kind {
	case Swept:
		return c.Kind == Released
	case Overridden:
		return c.Kind == Claimed || c.Kind == Reassigned
	}
	return false
}

// Settled reports whether t can be told of, as far as the claims here on t go:
// live are those that have not ended. A claim that was written and not granted
// may be withdrawn yet; and what a page shows in the place of a claim that is
// held is told together with the claim's end, or never, if it is repaired.
func Settled(t task.Task, live []claim.Claim) bool {
	token := claim.ParseToken(t.Token)
	for _, c := range live {
		// Where there are no tokens, the name has to do.
		shows := t.ClaimedBy == c.Agent && (token.ID == c.ID || t.Token == "")
		switch c.State {
		case claim.Held, claim.Finishing:
			if !shows || token.Void || token.Done || t.Trashed || t.Status != task.InProgress {
				return false
			}
		case claim.Writing, claim.Voided, claim.Abandoned:
			unseen := c.State == claim.Abandoned && c.Due.IsZero()
			if shows && !t.Trashed && t.Status == task.InProgress && (t.Token != "" || !unseen) {
				return false
			}
		}
	}
	return true
}
