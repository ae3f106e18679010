package claim

import (
	"cmp"
	"time"

	"dibs/internal/task"
)

// Purpose says why the daemon put a mark on a page.
type Purpose string

// The reasons for a mark.
const (
	// Withdrawn: an attempt was given up after its claim was written.
	Withdrawn Purpose = "withdrawn"
	// Swept: the page showed a stale claim.
	Swept Purpose = "swept"
	// Leftover: the page showed an ended claim of this ledger.
	Leftover Purpose = "over"
	// ForReopening: the page of a task to be reopened still showed a name.
	ForReopening Purpose = "reopening"
	// Debt: a claim of an older version left its lease length on the page, see Repay.
	Debt Purpose = "lease"
)

// MarkState is the state of a mark.
type MarkState string

// The states of a mark.
const (
	// Unseen: not on the page. Its write may still arrive, and is watched for.
	Unseen MarkState = "unseen"
	// Abandoned: on the page, or may be; to be made void.
	Abandoned MarkState = "abandoned"
	// Voided: void on the page; taking it off the page is next.
	Voided MarkState = "voided"
	// Clearing: the write that takes it off the page may have been sent.
	Clearing MarkState = "clearing"
	// Gone: over.
	Gone MarkState = "ended"
)

// Mark is a token of the daemon's own on a page, until it is taken off: the claim of an
// abandoned attempt, or a void token that competes for the page like a claim. No agent holds
// it. All times are Notion's.
type Mark struct {
	// ID is the token on the page, without the word void.
	ID  ID      `json:"id"`
	Why Purpose `json:"why"`
	// Of is the claim that the mark takes off the page, if known.
	Of ID `json:"of,omitempty"`
	// Agent is the name on the page beside the mark: the agent that made the attempt, or the
	// one whose claim is taken off.
	Agent string    `json:"agent"`
	Task  task.Task `json:"task"` // as it was last read or written here
	State MarkState `json:"state"`
	Made  time.Time `json:"made_at"`
	// Lease holds the date written with the mark.
	Lease
	// Assigned is set if the name stays on the task when the mark is taken off.
	Assigned bool `json:"assigned,omitempty"`
	// Due is when the next step is due; zero if none is.
	Due   time.Time `json:"due_at,omitzero"`
	Ended time.Time `json:"ended_at,omitzero"`
	// Reason says in one line why the mark was made, or how it ended.
	Reason string `json:"reason,omitempty"`
	// History is that of a Finish: if it is set, a swept task becomes BLOCKED instead of OPEN.
	History string `json:"history,omitempty"`
	// By is the user who asked for it, see Fact.By.
	By string `json:"by,omitempty"`
}

// mark returns the mark that an abandoned attempt leaves.
func (h Hold) mark(s MarkState, due time.Time, reason string) Mark {
	return Mark{
		ID: h.ID, Why: Withdrawn, Of: h.ID, Agent: h.Agent, Task: h.Task, State: s, Made: h.Reserved,
		Lease: h.Lease, Assigned: h.Assigned, Due: due, Reason: reason,
	}
}

// Shown returns the state in which others are shown the attempt that left m: to them a claim has one
// life, and its withdrawal is a part of that.
func (m Mark) Shown() State { return State(m.State) }

// OnPage reports whether m is on its page, or may be.
func (m Mark) OnPage() bool { return m.State != Unseen && m.State != Gone }

// competes reports whether m was written to replace a stale claim, or no claim, in competition
// with the claims of others.
func (m Mark) competes() bool { return m.Why == Swept || m.Why == ForReopening }

// opens reports whether m is no token on a page, but the record of a write that only opens the task.
func (m Mark) opens() bool { return m.Why == ForReopening && m.Of == "" }

// off reports whether t shows that m was taken off, or, where m only was to open the task, that it
// is in another status by now.
func (m Mark) off(t task.Task) bool {
	if m.opens() {
		return t.Status != m.Task.Status
	}
	return t.Token == "" && (t.ClaimedBy == "" || t.ClaimedAt.IsZero() && (m.Assigned || t.ClaimedBy != m.Agent))
}

// putOff returns m with its next step due when a retry is, see laterThan. No step comes sooner by
// that: a grace is never cut short.
func (m Mark) putOff(now time.Time, cause error) Mark {
	if retry := laterThan(now, m.Made, cause); retry.After(m.Due) {
		m.Due = retry
	}
	return m
}

// gone returns m as ended.
func (m Mark) gone(at time.Time, reason string) Mark {
	m.State, m.Due, m.Ended, m.Reason = Gone, time.Time{}, at, reason
	return m
}

// fact returns a new fact about m.
func (m Mark) fact(kind Kind, at time.Time) Fact {
	f := Hold{ID: m.Of, Agent: m.Agent, Task: m.Task}.fact(kind, at)
	f.Remote = true
	return f
}

// watchTime is how long a write that never showed is watched for. Notion gives up on a request
// after a minute; the rest is caution.
const watchTime = 24 * time.Hour

// watchEnd returns when a mark in state Unseen may be forgotten.
func (m Mark) watchEnd() time.Time { return m.Made.Add(watchTime) }

// step returns when RunDue has something to do for m.
func (m Mark) step() (time.Time, bool) {
	switch m.State {
	case Abandoned, Voided, Clearing:
		return m.Due, true
	case Unseen:
		if m.Why == Debt {
			return time.Time{}, false // see Repay
		}
		if end := m.watchEnd(); end.After(m.Due) {
			return end, true
		}
		return m.Due, true
	}
	return time.Time{}, false
}

// cleared returns the fact that a claim's remains are off its page; t is the task afterwards.
// If the page was a copy of another task's, the fact names neither that claim nor its agent.
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

// signature returns the name under the note that a sweep leaves.
func (m Mark) signature() string { return cmp.Or(m.By, Sweeper) }
