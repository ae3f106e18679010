// Package broker is what agents and people at this machine ask of the daemon:
// claims on tasks by name or by turn, what becomes of them, and the state of
// the queue. It joins the claim protocol, the mirror and the journal; the
// socket API above it only translates.
//
// All times it hands out are Notion's; Local turns them into this machine's.
package broker

import (
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Request asks for a claim.
type Request struct {
	Agent string
	// Task is the task wanted; empty means the first ready one.
	Task task.ID
	// Timeout is the lease length wanted; zero means the task's own, or the default.
	Timeout time.Duration
	// Wait is how long to wait for the task, or for a ready one, before a denial.
	Wait time.Duration
	// Key is the request's idempotency key, if it has one.
	Key string
}

// Ref names a claim: by its id, by its task's id, or, if Claim is empty, as the
// only claim that Agent holds.
type Ref struct {
	Claim string
	// Agent, if not empty, must be the claim's agent.
	Agent string
}

// Filter selects tasks.
type Filter struct {
	Status task.Status // empty: any
	Ready  bool        // only those that a claim could get now, in the order they are offered
	Agent  string      // only those claimed by this name
	Limit  int         // zero: all
}

// View is a task as the mirror knows it, and what that means for a claim.
type View struct {
	task.Task
	Ready bool
	// WaitsFor lists the dependencies that are not COMPLETED.
	WaitsFor []task.ID
	// Claim is the claim held through this daemon, if there is one.
	Claim *claim.Claim
	// LeaseUntil is when the holder's lease ends; zero if there is no holder or
	// the task is a person's reservation.
	LeaseUntil time.Time
}

// Listing is what a question about tasks is answered with.
type Listing struct {
	Tasks []View
	Age
}

// Age says how old the mirror is, from which questions about tasks are answered.
type Age struct {
	// SyncedAt is when the mirror last agreed with Notion; zero if never.
	SyncedAt time.Time `json:"synced_at,omitzero"`
	// Old is the time since then.
	Old time.Duration `json:"-"`
	// Stale is set when the last sync failed or is overdue, or the board is being
	// read for the first time.
	Stale bool `json:"stale,omitempty"`
}

// Synced is what a sync did.
type Synced struct {
	Full                bool // the whole board was read
	Read, Changed, Gone int  // rows of queries; tasks that changed, and that left
	Tasks               int  // in the mirror now
	Age
}

// Progress is how far a full sync has come.
type Progress struct {
	Read int `json:"read"`
	// Of is how many there will be, if it is as many as last time; zero if that
	// is not known.
	Of int `json:"of,omitempty"`
}

// LogFilter selects events of the local record.
type LogFilter struct {
	Agent string
	Task  task.ID
	Claim claim.ID
	After string // only events after the one with this id
	Limit int    // the newest that many; zero: a hundred
}

// Swept is one task that a sweep put back to OPEN.
type Swept struct {
	Task   task.ID `json:"task"`
	Title  string  `json:"title"`
	Former string  `json:"former"`
}

// Status is the state of the daemon, for `dibs status`.
type Status struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Started is by this machine's clock.
	Started  time.Time    `json:"started_at"`
	Socket   string       `json:"socket"`
	StateDir string       `json:"state_dir"`
	Notion   NotionStatus `json:"notion"`
	Mirror   MirrorStatus `json:"mirror"`
	Claims   int          `json:"claims_held"`
	Outbox   OutboxStatus `json:"outbox"`
	Policy   PolicyStatus `json:"policy"`
	Warnings []string     `json:"warnings"`
}

// NotionStatus says how the daemon gets on with Notion.
type NotionStatus struct {
	BaseURL  string `json:"base_url"`
	Requests int64  `json:"requests"` // sent since the daemon started
	// PausedUntil, by this machine's clock, is set while Notion asked to be left alone.
	PausedUntil time.Time `json:"paused_until,omitzero"`
	// LastError is the last failure to reach Notion, empty once it works again.
	LastError string `json:"last_error,omitempty"`
	// ClockSkewMS is Notion's time minus this machine's, in milliseconds.
	ClockSkewMS int64 `json:"clock_skew_ms"`
}

// MirrorStatus says how fresh the local copy of the tasks is.
type MirrorStatus struct {
	Tasks int `json:"tasks"`
	Ready int `json:"ready"`
	Age
	// Syncing is set while the whole board is being read.
	Syncing *Progress `json:"syncing,omitempty"`
}

// OutboxStatus says what is owed to Notion: log entries, and what agents said
// when they were done with a task.
type OutboxStatus struct {
	Depth     int       `json:"depth"`
	Finishes  int       `json:"finishes"` // those of agents, among Depth
	Oldest    time.Time `json:"oldest,omitzero"`
	LastError string    `json:"last_error,omitempty"`
}

// PolicyStatus repeats the settings that claims depend on.
type PolicyStatus struct {
	TimeoutSeconds     float64 `json:"timeout_seconds"`
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	SettleSeconds      float64 `json:"settle_seconds"`
	Override           string  `json:"override"`
	Exclusive          bool    `json:"exclusive"`
}

// Errors of questions about claims and tasks.
var (
	// ErrNoTask: the mirror has no task of that id.
	ErrNoTask = errors.New("no such task in the mirror")
)

// AmbiguousError says that an agent has no claim, or several, where its only one was meant.
type AmbiguousError struct {
	Agent  string
	Claims []claim.Claim
}

func (e *AmbiguousError) Error() string {
	if len(e.Claims) == 0 {
		return fmt.Sprintf("%s holds no claim", e.Agent)
	}
	return fmt.Sprintf("%s holds %d claims: name one by its claim id or task id", e.Agent, len(e.Claims))
}

// OwedError says that what was asked of a claim is noted, and that Notion has yet
// to be told.
type OwedError struct {
	Claim claim.Claim
	Err   error
}

func (e *OwedError) Error() string { return e.Err.Error() }

func (e *OwedError) Unwrap() error { return e.Err }

// InvalidError is input that cannot be used; it says what and why.
type InvalidError struct{ Detail string }

func (e *InvalidError) Error() string { return e.Detail }

// ForbiddenError is a caller that may not use an agent's name.
type ForbiddenError struct {
	Agent  string
	Detail string
}

func (e *ForbiddenError) Error() string { return e.Detail }
