package claim

import (
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Code says why a claim was not granted. Codes are part of the contract.
type Code string

// The codes of denials.
const (
	CodeHeld                Code = "held"
	CodeNotOpen             Code = "not_open"
	CodeLostRace            Code = "lost_race"
	CodeBlockedByDependency Code = "blocked_by_dependency"
	CodeReserved            Code = "reserved" // assigned to somebody else
	CodeNothingReady        Code = "nothing_ready"
	CodeLimitReached        Code = "limit_reached"
	CodeNotFound            Code = "not_found"
	CodeNotionUnavailable   Code = "notion_unavailable"
	CodeNotionRefused       Code = "notion_refused" // a person has to change something
	CodeJournalUnavailable  Code = "journal_unavailable"
)

// Denied is the error of an attempt that was not granted.
type Denied struct {
	Code Code
	Task task.Task // the task, as far as it is known
	// Holder is who has the task, if somebody has.
	Holder string
	// ExpiresAt is when the holder's lease ends, in Notion's time; zero if unknown or never.
	ExpiresAt time.Time
	// Has are the claims that the agent holds or is done with, for CodeLimitReached.
	Has []Hold
	// RetryAfter is how long to wait before trying again; zero if unknown.
	RetryAfter time.Duration
	// Detail says what happened and what to do, in one line.
	Detail string
	// Page is set if it was the task's page that could not be read or written: other
	// tasks may be had all the same.
	Page bool
	// Unseen is set if the claim was written and is not on the page, nor anybody
	// else's: a new attempt, under a new id, may be made at once.
	Unseen bool
	// Local is set if it was the reservation that was refused: nothing was asked
	// of Notion, and nothing changed for anybody else.
	Local bool
	// Unrecorded is set if it is left to the caller to record it, see Request.Quiet.
	Unrecorded bool
	// Err is what the store answered, for CodeNotionUnavailable.
	Err error
}

// Deny is the denial of a task that may not be claimed, as the decision on t says.
func (d Decision) Deny(t task.Task) *Denied {
	return &Denied{
		Code: d.Code, Task: t, Holder: d.Holder, ExpiresAt: d.LeaseEnd,
		Detail: fmt.Sprintf("%q cannot be claimed: %s; ask for the next ready task instead", t.Title, d.Reason),
	}
}

// choose is the decision on a task, unless it may be claimed and is not what the agent
// asked for.
func (a *attempt) choose(d Decision, t task.Task) (_ Decision, unwanted bool) {
	if d.Code != "" || a.unwanted == nil {
		return d, false
	}
	why := a.unwanted(t)
	if why == "" {
		return d, false
	}
	return Decision{Code: CodeNotOpen, Reason: "it is not what was asked for: " + why}, true
}

func (d *Denied) Error() string { return d.Detail }

func (d *Denied) Unwrap() error { return d.Err }

// Lost is the error of an operation on a claim that is no longer the agent's.
type Lost struct {
	Claim Hold
	// Asked is the agent that asked, if that is not the claim's.
	Asked string
	// Holder is who has the task now; empty if nobody or unknown.
	Holder string
	Detail string
}

func (l *Lost) Error() string {
	if l.Asked != "" && l.Asked != l.Claim.Agent {
		return fmt.Sprintf("%q is not %s's: %s has it", l.Claim.Task.Title, l.Asked, l.Claim.Agent)
	}
	return fmt.Sprintf("%q is no longer %s's: %s", l.Claim.Task.Title, l.Claim.Agent, l.Detail)
}

// isLost reports whether err is that of a claim that is over.
func isLost(err error) bool {
	_, lost := errors.AsType[*Lost](err)
	return lost
}

// unavailable words a failure to read or write the page.
func (c *Claimer) unavailable(err error) Denied {
	d := Denied{Code: CodeNotionUnavailable, RetryAfter: RetryAfter(err), Err: err, Detail: err.Error()}
	if why, ok := errors.AsType[*JournalError](err); ok {
		d.Code, d.RetryAfter = CodeJournalUnavailable, why.RetryAfter
		return d
	}
	switch storeKind(err) {
	case Unavailable:
		d.Detail = "Notion cannot be reached: " + d.Detail
	case NotFound:
		d.Code = CodeNotFound
	case Trashed:
		d.Code = CodeNotOpen
	case Refused:
		d.Code = CodeNotionRefused
	}
	return d
}
