package api

import (
	"dibs/internal/claim"
	"dibs/internal/task"
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

// LogEntry is an entry of the local record of what happened to claims.
type LogEntry struct {
	ID       string     `json:"id"`
	At       Time       `json:"at"`
	Kind     claim.Kind `json:"kind"`
	Task     task.ID    `json:"task,omitempty"`
	Key      string     `json:"key,omitempty" doc:"What people call the task, such as T-3"`
	Title    string     `json:"title,omitempty"`
	URL      string     `json:"url,omitempty"`
	Agent    string     `json:"agent,omitempty"`
	By       string     `json:"by,omitempty" doc:"The user who asked for it in no agent's name, such as user ada"`
	Claim    claim.ID   `json:"claim,omitempty"`
	Code     claim.Code `json:"code,omitempty" doc:"Why an attempt was denied"`
	Holder   string     `json:"holder,omitempty" doc:"The other party: who has the task, had it, or took it"`
	Against  claim.ID   `json:"against,omitempty" doc:"The claim that a denial ran into"`
	Remote   bool       `json:"remote,omitempty" doc:"Notion was asked or written to"`
	Detail   string     `json:"detail,omitempty"`
	Started  Time       `json:"started_at,omitzero"`
	Finished Time       `json:"finished_at,omitzero"`
	Summary  string     `json:"summary,omitempty"`
	Usage    *Usage     `json:"usage,omitempty" doc:"What was used for work that ended, as the agent reported"`
	Count    int        `json:"count,omitempty" doc:"How many attempts were refused"`
	Names    []string   `json:"names,omitempty" doc:"Who was refused"`
	Expires  Time       `json:"expires_at,omitzero" doc:"When the holder's lease ended, or the claim's own"`
	Former   claim.ID   `json:"former,omitempty" doc:"The holder's claim, if it was taken over"`
	Changed  []string   `json:"changed,omitempty" doc:"What was edited on the board, or which files the work changed"`
	Seen     bool       `json:"seen,omitempty" doc:"It was only seen on the board, and is not on record"`
}

// Log is a part of the local record, oldest entry first.
type Log struct {
	Entries []LogEntry `json:"events" nullable:"false"`
}

// Story is what happened to a task, or to one claim on it, for as long as the record is kept.
type Story struct {
	Task  TaskRef `json:"task"`
	Story []Step  `json:"story" nullable:"false" doc:"Oldest first"`
}

// Step is one thing that happened.
type Step struct {
	At   Time   `json:"at"`
	Who  string `json:"who" doc:"An agent, a person, or dibs"`
	What string `json:"what" doc:"What happened, as a sentence"`
	Why  string `json:"why" doc:"Why, in one line; empty if nobody said"`
}
