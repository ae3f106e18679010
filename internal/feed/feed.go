// Package feed is what agents are told: what became of tasks and claims, in the
// order in which it was found out, each thing once. It is pure; the journal
// numbers the facts that are told.
//
// There are two sources. A task's change of state, whoever caused it, is the
// difference between the state that was told last and the one the mirror shows
// now (Diff). What happened to a claim is the protocol's own record, of which
// agents are told a part (Tells), from where they stand (Seen).
package feed

import (
	"cmp"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Tells reports whether agents are told a fact of the record as it is. They are told of
// others by the change that these make of a task's state.
func Publishes(f claim.Fact) bool {
	switch f.Kind {
	case claim.KindLost, claim.KindExpiring, claim.KindSwept, claim.KindOverridden, claim.KindConflict:
		return true
	case claim.KindReserved, claim.KindUnreserved:
		return f.Reservation != "" // of one, not the sum of several
	}
	return false
}

// Seen is a fact as agents see it: whom it happened to comes first.
func ForAgents(f claim.Fact) claim.Fact {
	switch f.Kind {
	case claim.KindOverridden:
		f.Agent, f.Claim, f.Holder = f.Holder, f.Former, f.Agent
	case claim.KindSwept:
		f.Holder = "" // nobody
	}
	return f
}

// Tell says what agents are told when the protocol records something about a
// task that was in the state before, nil if they know nothing of it, and is in
// the state after, nil if that is not to be told yet. It returns the record, completed
// by what is known of the task, and what else is to be told: what the record says of
// a change of state is not said a second time.
func Compose(before, after *State, record []claim.Fact) (completed, changed []claim.Fact) {
	record = slices.Clone(record)
	if after != nil {
		changed = Diff(before, *after)
	}
	for i := range record {
		r := &record[i]
		if !Publishes(*r) {
			summarise(changed, *r)
			continue
		}
		if known := cmp.Or(after, before); known != nil {
			r.Status, r.Priority = known.Status, known.Priority
		}
		if before != nil {
			claimOf(r, *before)
		}
		changed = slices.DeleteFunc(changed, func(c claim.Fact) bool { return saidBy(*r, c) })
	}
	return record, changed
}

// claimOf completes a fact that names an agent by the claim that it had.
func claimOf(r *claim.Fact, before State) {
	agent, id := r.Agent, &r.Claim
	if r.Kind == claim.KindOverridden {
		agent, id = r.Holder, &r.Former
	}
	if *id == "" && agent != "" && before.holder() == agent {
		*id = before.claim()
	}
}

// summarise adds what an agent said at the end of its claim to the change that
// it made of the task, and which user asked for a change.
func summarise(changed []claim.Fact, r claim.Fact) {
	for i := range changed {
		changed[i].By = cmp.Or(changed[i].By, r.By)
		if changed[i].Agent == r.Agent {
			changed[i].Summary = r.Summary
		}
	}
}

// saidBy reports whether the change c is what r is about.
func saidBy(r, c claim.Fact) bool {
	switch r.Kind {
	case claim.KindSwept:
		return c.Kind == claim.KindReleased
	case claim.KindOverridden:
		return c.Kind == claim.KindClaimed || c.Kind == claim.KindReassigned
	}
	return false
}

// Settled reports whether t can be told of, as far as the claims here on t go:
// live are those that have not ended. A claim that was written and not granted
// may be withdrawn yet; and what a page shows in the place of a claim that is
// held is told together with the claim's end, or never, if it is repaired.
func Stable(t task.Task, live []claim.Hold) bool {
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
