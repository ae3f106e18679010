package server

import (
	"context"
	"errors"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// Broker is what the socket gives access to, by role: each stands beside the operations that need
// it. It answers with this machine's time.
type Broker interface {
	Claims
	Tasks
	Offers
	Inbox
	Agents
	Reservations
	Records
	Upkeep

	// Problem says what an error of the broker means; nil if that is not known.
	Problem(error) *api.Problem
}

// Keys is the durable memory of idempotency keys.
type Keys interface {
	// BeginRequest begins a request. The first to begin it gets nil and owns the
	// key until it calls FinishRequest or DropRequest; after it finished, others
	// get its answer. It fails with ErrKeyReused if the key belongs to a request
	// with another fingerprint, and with ErrInterrupted if the one who began the
	// request never got to its end.
	BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*Answer, error)

	// FinishRequest stores the answer.
	FinishRequest(ctx context.Context, uid int, key string, a Answer) error

	// DropRequest forgets the request, so that it can be made anew.
	DropRequest(ctx context.Context, uid int, key string) error

	// RequestClaim returns the claim made for the request, and false if there is none.
	RequestClaim(ctx context.Context, uid int, key string) (claim.ID, bool, error)
}

// Answer is what a request was answered.
type Answer struct {
	Status int
	Body   []byte
}

// Errors of Keys.
var (
	ErrKeyReused   = errors.New("the idempotency key was used for another request: use a new one")
	ErrInterrupted = errors.New("the request with this idempotency key was cut off")
)
