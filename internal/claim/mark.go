package claim

import (
	"cmp"
	"time"

	"dibs/internal/task"
)

// Why is why the daemon has something of its own on a page.
type Why string

// The reasons for a mark.
const (
	// Withdrawn: an attempt was given up after its claim was written.
	Withdrawn Why = "withdrawn"
	// Swept: the page showed a stale claim.
	Swept Why = "swept"
	// Over: the page showed a claim of this ledger that is over.
	Over Why = "over"
	// ForReopening: a task that nobody can claim is to be opened, and showed a name.
	ForReopening Why = "reopening"
	// Debt: a claim that is over has left the lease length on the page that it asked for.
	Debt Why = "lease"
)

// MarkState is where a mark stands in its life.
type MarkState string

// The states of a mark.
const (
	// Unseen: not on the page. A write may get there yet, and is watched for; a Debt waits
	// until nobody has the task.
	Unseen MarkState = "unseen"
	// Abandoned: on the page, or it may be, and to be made void.
	Abandoned MarkState = "abandoned"
	// Voided: void on the page; taking it off the page is next.
	Voided MarkState = "voided"
	// Clearing: the write that takes it off the page may have been sent.
	Clearing MarkState = "clearing"
	// Gone: over.
	Gone MarkState = "ended"
)

// Mark is what the daemon itself has on a page, or may have, until it is taken off: the
// claim of an attempt that was given up, or a void token that competes for the page like a
// claim. No agent holds it. All times are Notion's.
type Mark struct {
	// ID is the token on the page, or what follows the word void in it.
	ID  ID  `json:"id"`
	Why Why `json:"why"`
	// Of is the claim that is taken off the page, as far as it is known.
	Of ID `json:"of,omitempty"`
	// Agent is the name that the page shows beside the mark: who made the attempt, or
	// whose claim is taken off.
	Agent string    `json:"agent"`
	Task  task.Task `json:"task"` // as it was last read or written here
	State MarkState `json:"state"`
	Made  time.Time `json:"made_at"`
	// Lease has the date that was written with the mark, and the lease length that goes
	// back to the task with it, see Lease.borrows.
	Lease
	// Assigned is set if the name stays on the task when the mark is taken off.
	Assigned bool `json:"assigned,omitempty"`
	// Due is when the next step is to be taken; zero if none is.
	Due   time.Time `json:"due_at,omitzero"`
	Ended time.Time `json:"ended_at,omitzero"`
	// Reason says in one line why the mark was made, or how it ended.
	Reason string `json:"reason,omitempty"`
	// History is as of a Finish: a task that is swept becomes BLOCKED instead of OPEN.
	History string `json:"history,omitempty"`
	// By is who asked for it, as Fact.By has it.
	By string `json:"by,omitempty"`
}

// mark is what is left of an attempt that is given up.
func (h Hold) mark(s MarkState, due time.Time, reason string) Mark {
	return Mark{
		ID: h.ID, Why: Withdrawn, Of: h.ID, Agent: h.Agent, Task: h.Task, State: s, Made: h.Reserved,
		Lease: h.Lease, Assigned: h.Assigned, Due: due, Reason: reason,
	}
}

// competes reports whether m was put on its page in the place of a stale claim or of none,
// in a write that competes with the claims of others.
func (m Mark) competes() bool { return m.Why == Swept || m.Why == ForReopening || m.Why == Debt }

// owed reports whether m is a debt that has yet to be put on its page.
func (m Mark) owed() bool { return m.Why == Debt && m.State == Unseen }

// off reports whether t is as the last step of m leaves it.
func (m Mark) off(t task.Task) bool {
	return t.Token == "" && (t.ClaimedBy == "" || m.Assigned && t.ClaimedBy == m.Agent && t.ClaimedAt.IsZero())
}

// gone is m at its end.
func (m Mark) gone(at time.Time, reason string) Mark {
	m.State, m.Due, m.Ended, m.Reason = Gone, time.Time{}, at, reason
	return m
}

// fact starts a fact about m.
func (m Mark) fact(kind Kind, at time.Time) Fact {
	f := Hold{ID: m.Of, Agent: m.Agent, Task: m.Task}.fact(kind, at)
	f.Remote = true
	return f
}

// watchTime is how long a write that never showed is watched for. Notion gives up on a
// request after a minute; the rest is caution.
const watchTime = 24 * time.Hour

// watchEnd is when a mark in state Unseen may be forgotten.
func (m Mark) watchEnd() time.Time { return m.Made.Add(watchTime) }

// step is when RunDue has something to do for m.
func (m Mark) step() (time.Time, bool) {
	switch m.State {
	case Abandoned, Voided, Clearing:
		return m.Due, true
	case Unseen:
		if end := m.watchEnd(); end.After(m.Due) {
			return end, true
		}
		return m.Due, true
	}
	return time.Time{}, false
}

// cleared is the fact of what a page showed of a claim being off it; t is the task
// afterwards. A copy of the page of a claim has nothing to do with that claim, nor with its
// agent.
func (m Mark) cleared(t task.Task, at time.Time, what string) Fact {
	copied := m.Task.ID != t.ID
	m.Task = t
	f := m.fact(KindCleared, at)
	f.Detail = what
	if copied {
		f.Claim, f.Holder, f.Agent = "", m.Agent, ""
	}
	return f
}

// signature is who signs the note that the mark of a sweep leaves.
func (m Mark) signature() string { return cmp.Or(m.By, sweeper) }
