package claim

import (
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Code says why a claim was denied. Codes are part of the contract.
type Code string

// The codes of denials.
const (
	CodeHeld                Code = "held"
	CodeNotOpen             Code = "not_open"
	CodeLostRace            Code = "lost_race"
	CodeBlockedByDependency Code = "blocked_by_dependency"
	CodeReserved            Code = "reserved"    // assigned to somebody else
	CodeNotOffered          Code = "not_offered" // outside of tasks.only, or taken back from the agent
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
	// Holder has the task; empty if nobody does.
	Holder string
	// ExpiresAt is when the holder's lease ends, or the pause or the limit, in Notion's time;
	// zero if unknown or never.
	ExpiresAt time.Time
	// Has lists the claims that the agent holds or is finishing, for CodeLimitReached.
	Has []Hold
	// RetryAfter is how long to wait before trying again; zero if unknown.
	RetryAfter time.Duration
	// Detail says what happened and what to do, in one line.
	Detail string
	// Page is set if the task's page could not be read or written. Other tasks may still be
	// available.
	Page bool
	// Unseen is set if the claim was written but is not on the page, and neither is a claim of
	// anybody else. A new attempt, under a new id, may be made at once.
	Unseen bool
	// Local is set if the reservation was refused: Notion was not asked, and nothing changed
	// for anybody else.
	Local bool
	// Barred is set if the agent is granted nothing for now, whatever the task.
	Barred bool
	// Unrecorded is set if the caller is to record the denial, see Request.Quiet.
	Unrecorded bool
	// Err is the store's or the journal's error, if one caused the denial.
	Err error
}

func (d *Denied) Error() string { return d.Detail }

func (d *Denied) Unwrap() error { return d.Err }

// Lost is the error of an operation on a claim that is no longer the agent's.
type Lost struct {
	Claim Hold
	// Asked is the agent that asked, if it is not the claim's own.
	Asked string
	// Holder has the task now; empty if nobody does or it is not known.
	Holder string
	Detail string
}

func (l *Lost) Error() string {
	if l.Asked != "" && l.Asked != l.Claim.Agent {
		return fmt.Sprintf("%q is not %s's: %s has it", l.Claim.Task.Title, l.Asked, l.Claim.Agent)
	}
	return fmt.Sprintf("%q is no longer %s's: %s", l.Claim.Task.Title, l.Claim.Agent, l.Detail)
}

// isLost reports whether err is a *Lost.
func isLost(err error) bool {
	_, lost := errors.AsType[*Lost](err)
	return lost
}

// unavailable returns the denial for a failure of the store or the journal.
func unavailable(err error) Denied {
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
