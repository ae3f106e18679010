// Package owed has what Notion is owed put there once: entries of the logs, comments, and tasks.
//
// Notion has no way to ask for a page to be made only if it was not made before, and a request
// can end without an answer. So whatever is to be in Notion once is an Intent, which has an id of
// its own, is saved in a Ledger before it is sent, and is sent in one request. Its fate is known
// then, or it is in doubt: it is looked for by its id, and sent again only once it is certain that
// it is not there and that no request for it is under way any more (Doubts). A Sender does that
// to one intent, for whoever waits for it; a Queue to all those of a kind, by itself.
//
// Package owed also says what the answer to a request is, of which it can be known that it was
// given only once (Answer).
package owed

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

// Kind is what an intent becomes in Notion.
type Kind string

// The kinds. Those but Creation are what a queue delivers by itself.
const (
	MeshEntry = Kind(claim.MeshLog)
	TaskEntry = Kind(claim.TaskLog)
	Comment   = Kind(claim.Comments)
	// Creation is a task that somebody has asked to be made, and waits for.
	Creation Kind = "creation"
)

// State is how far an intent has got.
type State string

// The states. The journal keeps them by these names.
const (
	Due       State = "due"       // it is not in Notion, and to be sent
	Sending   State = "sending"   // it is being sent
	Doubted   State = "in_doubt"  // it was sent, and may be in Notion
	Delivered State = "delivered" // it is in Notion, or will never be
)

// Intent is a thing that Notion is owed.
type Intent struct {
	// Seq is the ledger's number for it.
	Seq int64
	// ID is what it is found by in Notion. Two intents of one kind have different ones.
	ID   string
	Kind Kind
	// Fact is what an entry or a comment tells of.
	Fact claim.Fact
	// At is when it was asked for, in Notion's time.
	At    time.Time
	State State
	Tries int       // how often it was sent
	Sent  time.Time // when it was last sent, see Doubts; zero for never
	// Ref is what it has become in Notion, if that was noted.
	Ref string
	// Key is the idempotency key of the request that it was added for, and UID the user whose key
	// it is; empty for none.
	UID int
	Key string
}

// Ledger keeps intents. Each method that changes one is one transaction, on the disk when it
// returns. Its times are those that it is given: what they mean is the queue's business.
type Ledger interface {
	// Owe adds an intent that tells of no fact, and is due, for its request if that has a key. It
	// returns the intent with its number. (Those that do tell of one are added with it.)
	Owe(ctx context.Context, in Intent) (Intent, error)
	// OwedFor returns the intent that was added for the request of that user and key; ok is false
	// for none.
	OwedFor(ctx context.Context, uid int, key string) (in Intent, ok bool, err error)
	// NextOwed returns the intents of a kind that are due or in doubt and may be worked on now,
	// oldest first, and at most limit of them if that is not 0.
	NextOwed(ctx context.Context, kind Kind, now time.Time, limit int) ([]Intent, error)
	// NextOwedAt says when the first intent of a kind that is due or in doubt may be worked on;
	// false if there is none.
	NextOwedAt(ctx context.Context, kind Kind) (time.Time, bool, error)
	// Hurry has no intent of the kind wait beyond that time.
	Hurry(ctx context.Context, kind Kind, latest time.Time) error
	// StartSending notes that an intent, due or in doubt, is about to be sent. It fails where it is
	// being sent already, and where the ledger is somebody else's by now, who may be sending it.
	StartSending(ctx context.Context, in Intent, at time.Time) error
	// NoteInDoubt notes that an intent was sent and its fate is unknown.
	NoteInDoubt(ctx context.Context, in Intent, notBefore time.Time, why error) error
	// Retry notes that an intent is not in Notion.
	Retry(ctx context.Context, in Intent, notBefore time.Time, why error) error
	// Delivered notes that an intent is in Notion, as ref if that is not empty; or that it never
	// will be. The error is ErrTaken, and nothing is noted, if another one is in Notion as ref.
	Delivered(ctx context.Context, in Intent, ref string, at time.Time) error
	// Drop forgets an intent that came to nothing, and that its request has one.
	Drop(ctx context.Context, in Intent) error
}

// ErrTaken is the error of what was found in Notion, and is another intent's.
var ErrTaken = errors.New("it is what another intent has become")

// Effect is how intents get into Notion. Its errors are *claim.StoreError, or a *GoneError around
// one; of any other it is not known what became of the intent.
type Effect interface {
	// Send puts the intent into Notion, in one request that is sent at most once, and returns what
	// it has become, if that is of interest.
	Send(ctx context.Context, in Intent) (ref string, err error)
	// Find looks for the intent, and returns what it may have become, likeliest first: it is the
	// first that is no other intent's.
	Find(ctx context.Context, in Intent) (refs []string, err error)
}

// GoneError is the error of what cannot be in Notion any more, whenever it is tried.
type GoneError struct{ Err error }

func (e *GoneError) Error() string { return e.Err.Error() }

func (e *GoneError) Unwrap() error { return e.Err }
