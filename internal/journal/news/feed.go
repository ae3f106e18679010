// Package news decides what is published to agents: what became of tasks and claims,
// in the order in which it was found out, each thing once. It is pure; the journal
// stores and numbers the published facts.
//
// There are two sources. A task's change of state, whoever caused it, is the
// difference between the state last published and the one that the mirror shows now
// (Diff). What happened to a claim comes from the protocol's own record: part of it is
// published (Publishes), from the agents' point of view (ForAgents).
package news

import (
	"cmp"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Publishes reports whether a fact of the record is published itself. Other facts show in
// the feed by the change that they make to a task's state.
func Publishes(f claim.Fact) bool {
	switch f.Kind {
	case claim.KindLost, claim.KindExpiring, claim.KindSwept, claim.KindOverridden, claim.KindConflict:
		return true
	case claim.KindReserved, claim.KindUnreserved:
		return f.Reservation != "" // a single one, not a sum of several
	}
	return false
}

// ForAgents returns a fact from the agents' point of view: Agent is the one it happened to.
func ForAgents(f claim.Fact) claim.Fact {
	switch f.Kind {
	case claim.KindOverridden:
		f.Agent, f.Claim, f.Holder = f.Holder, f.Former, f.Agent
	case claim.KindSwept:
		f.Holder = "" // nobody
	}
	return f
}

// Compose returns what to publish when the protocol records facts about a task, or the task
// changes, or both. before is the state last published, nil for none; after is the state
// now, nil if that must not be published yet. Compose returns the record, with what is known
// of the task filled in, and the changes of state that the record does not already report.
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

// claimOf fills in the claim of the agent that a fact names.
func claimOf(r *claim.Fact, before State) {
	agent, id := r.Agent, &r.Claim
	if r.Kind == claim.KindOverridden {
		agent, id = r.Holder, &r.Former
	}
	if *id == "" && agent != "" && before.holder() == agent {
		*id = before.claim()
	}
}

// summarise adds to changes the summary of the agent that caused them, and the user who
// asked for them. A board without a status for failed work shows BLOCKED; the event is what the
// record says.
func summarise(changed []claim.Fact, r claim.Fact) {
	for i := range changed {
		changed[i].By = cmp.Or(changed[i].By, r.By)
		if changed[i].Agent == r.Agent {
			changed[i].Summary = r.Summary
			if r.Kind == claim.KindFailed && changed[i].Kind == claim.KindBlocked {
				changed[i].Kind = r.Kind
			}
		}
	}
}

// saidBy reports whether r already reports the change c.
func saidBy(r, c claim.Fact) bool {
	switch r.Kind {
	case claim.KindSwept:
		return c.Kind == claim.KindReleased
	case claim.KindOverridden:
		return c.Kind == claim.KindClaimed || c.Kind == claim.KindReassigned
	}
	return false
}

// Stable reports whether the state of t can be published. holds and marks are those here on t that
// have not ended. The state is not stable while the page shows a claim that is not granted yet, or
// was given up, because it may be withdrawn. Nor is it while the page does not show a held claim:
// either the claim ends, and the state is published with its end, or the page is repaired.
func Stable(t task.Task, holds []claim.Hold, marks []claim.Mark) bool {
	token := claim.ParseToken(t.Token)
	live := !t.Trashed && t.Status == task.InProgress
	for _, h := range holds {
		switch shows := shown(t, h.ID, h.Agent); {
		case h.State == claim.Writing && shows && live:
			return false
		case h.State != claim.Held && h.State != claim.Finishing:
		case !shows || token.Void || token.Done || !live:
			return false
		}
	}
	for _, m := range marks {
		if (m.State == claim.Voided || m.State == claim.Abandoned) && shown(t, m.ID, m.Agent) && live {
			return false
		}
	}
	return true
}

// shown reports whether t shows the token of that id beside its agent's name.
func shown(t task.Task, id claim.ID, agent string) bool {
	return t.ClaimedBy == agent && claim.ParseToken(t.Token).ID == id
}
