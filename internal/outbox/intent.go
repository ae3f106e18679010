package outbox

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

// Kind is what an intent becomes in Notion.
type Kind string

// The kinds. Queues deliver all of them except Creation.
const (
	MeshEntry = Kind(claim.MeshLog)
	TaskEntry = Kind(claim.TaskLog)
	Comment   = Kind(claim.Comments)
	// Creation is a task to make, for a caller that waits for it.
	Creation Kind = "creation"
)

// Notices begins the kinds of notices; the rest of such a kind stands for the receiver.
const Notices = "notify:"

// State is how far an intent has got.
type State string

// The states. The journal stores them by these names.
const (
	Due       State = "due"       // it is not in Notion, and has to be sent
	Sending   State = "sending"   // it is being sent
	Doubted   State = "in_doubt"  // it was sent, and may be in Notion
	Delivered State = "delivered" // it is in Notion, or never will be
)

// Intent is a thing that Notion is owed.
type Intent struct {
	// Seq is the ledger's number for it.
	Seq int64
	// ID identifies it in Notion. It is unique among intents of one kind.
	ID   string
	Kind Kind
	// Fact is the fact of an entry or a comment.
	Fact claim.Fact
	// At is when it was asked for, in Notion's time.
	At    time.Time
	State State
	Tries int       // how often it was sent
	Sent  time.Time // when it was last sent, see Doubts; zero for never
	// Ref is what it has become in Notion, such as the id of a page; empty if not known.
	Ref string
	// With are intents to send in the same request, see Receiver.
	With []Intent
	// Key is the idempotency key of the request that it was added for, empty for none; UID is the
	// key's user.
	UID int
	Key string
}

// All returns the intent and those that are sent with it.
func (in Intent) All() []Intent { return append([]Intent{in}, in.With...) }

// Ledger stores intents. Each method that changes one is one transaction, on the disk when it
// returns; it changes those that are sent with it, too. A ledger stores times as given; only the
// caller interprets them.
type Ledger interface {
	// Owe adds an intent without a fact. It is due, and bound to its request if that has a key.
	// Owe returns it with its number. (Intents with a fact are added along with the fact.)
	Owe(ctx context.Context, in Intent) (Intent, error)
	// OwedFor returns the intent bound to the request of that user and key; ok is false if there
	// is none.
	OwedFor(ctx context.Context, uid int, key string) (in Intent, ok bool, err error)
	// NextOwed returns the intents of a kind that are due or in doubt and may be tried now, oldest
	// first; at most limit of them, 0 for no limit.
	NextOwed(ctx context.Context, kind Kind, now time.Time, limit int) ([]Intent, error)
	// NextOwedAt returns when the first intent of a kind that is due or in doubt may be tried;
	// false if there is none.
	NextOwedAt(ctx context.Context, kind Kind) (time.Time, bool, error)
	// Hurry brings forward to latest the intents of the kind that would wait longer.
	Hurry(ctx context.Context, kind Kind, latest time.Time) error
	// StartSending notes that an intent, due or in doubt, is about to be sent. It fails if the
	// intent is being sent already, or if the ledger has a new owner, which may be sending it.
	StartSending(ctx context.Context, in Intent, at time.Time) error
	// NoteInDoubt notes that an intent was sent and its fate is unknown.
	NoteInDoubt(ctx context.Context, in Intent, notBefore time.Time, why error) error
	// Retry notes that an intent is not in Notion, and when to send it.
	Retry(ctx context.Context, in Intent, notBefore time.Time, why error) error
	// Delivered notes that an intent is in Notion, as ref if that is not empty, or that it never
	// will be. If another intent is in Notion as ref, it notes nothing and returns ErrTaken.
	Delivered(ctx context.Context, in Intent, ref string, at time.Time) error
	// Drop deletes an intent that came to nothing, and unbinds it from its request.
	Drop(ctx context.Context, in Intent) error
}

// ErrTaken says that what was found in Notion belongs to another intent.
var ErrTaken = errors.New("it is what another intent has become")

// Effect puts intents into Notion. Its errors are *claim.StoreError, or a *GoneError around one.
// After any other error the intent's fate is unknown.
type Effect interface {
	// Send puts the intent into Notion, in one request that is sent at most once. It returns what
	// the intent has become, if that matters.
	Send(ctx context.Context, in Intent) (ref string, err error)
	// Find looks the intent up, and returns what it may have become, likeliest first. It is the
	// first of these that belongs to no other intent.
	Find(ctx context.Context, in Intent) (refs []string, err error)
}

// GoneError says that an intent can never be in Notion: trying again is useless.
type GoneError struct{ Err error }

func (e *GoneError) Error() string { return e.Err.Error() }

func (e *GoneError) Unwrap() error { return e.Err }

// Answer is the stored answer to a request. It is given again if the request is repeated.
type Answer struct {
	Status int
	Body   []byte
}

// Errors of a request that comes under an idempotency key.
var (
	// ErrReused: the key belongs to another request.
	ErrReused = errors.New("the idempotency key was used for another request: use a new one")
	// ErrUnanswered: a request with that key was cut off before it was answered. The answer now
	// depends on what became of the claim or task that was made for it.
	ErrUnanswered = errors.New("the request with this idempotency key was cut off")
)
