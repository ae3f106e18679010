package api

import (
	"dibs/internal/claim"
)

// Event is one thing that happened to a task, a claim or a reservation.
type Event struct {
	ID   int64      `json:"id" doc:"Later events have higher ids; no id is used twice"`
	At   Time       `json:"at" doc:"When the daemon found out"`
	Kind claim.Kind `json:"kind"`
	Task *TaskRef   `json:"task,omitempty" doc:"The task, as it was then"`

	Agent     string   `json:"agent,omitempty" doc:"Whom it concerns first: who has the task, or had it"`
	By        string   `json:"by,omitempty" doc:"The user who asked for it in no agent's name, such as user ada"`
	Holder    string   `json:"holder,omitempty" doc:"The other party: who has the task now, or lies over the claim"`
	Claim     claim.ID `json:"claim,omitempty" doc:"The agent's claim, if it is known"`
	Changed   []string `json:"changed,omitempty" doc:"What was edited: title, priority, timeout, dependencies, status"`
	ExpiresAt Time     `json:"expires_at,omitzero" doc:"When the lease ends, of one that is expiring, or the reservation"`
	Detail    string   `json:"detail,omitempty" doc:"Why, in one line"`
	Summary   string   `json:"summary,omitempty" doc:"What the agent said when it was done"`

	Reservation string   `json:"reservation,omitempty" doc:"The id of a reservation that was made, or is over"`
	Patterns    []string `json:"patterns,omitempty" doc:"What is reserved by it"`
	Shared      bool     `json:"shared,omitempty" doc:"Whether others may share that"`
}

// The kinds of events that differ from, or go beyond, the kinds of [claim.Fact].
const (
	ClaimLost     claim.Kind = "claim_lost"     // is claim.KindLost
	LeaseExpiring claim.Kind = "lease_expiring" // is claim.KindExpiring
	Gap           claim.Kind = "gap"            // a reader asked for events that are no longer kept
)

// EventKind returns the kind of an event for a fact of that kind.
func EventKind(of claim.Kind) claim.Kind {
	switch of {
	case claim.KindLost:
		return ClaimLost
	case claim.KindExpiring:
		return LeaseExpiring
	}
	return of
}

// The media type of GET /v1/events, and the header with which a reader continues where it stopped.
const (
	EventStream  = "text/event-stream"
	LastEventID  = "Last-Event-ID"
	EventsFuture = -1 // the value of after for future events only
)
