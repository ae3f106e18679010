package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/owed"
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

// Journal is the durable memory of idempotency keys.
type Journal interface {
	// Away returns since when nothing can be asked here, by this machine's clock, and why; a nil
	// error if it can.
	Away() (since time.Time, why error)

	// Over returns a channel that is closed once nothing more is taken, as another daemon leads:
	// the caller's door asks that one then. It is nil where that is never.
	Over() <-chan struct{}

	// BeginRequest begins a request. The first to begin it gets nil and owns the
	// key until it calls FinishRequest or DropRequest; after it finished, others
	// get its answer. It fails with owed.ErrReused if the key belongs to a request
	// with another fingerprint, and with owed.ErrUnanswered if the one who began the
	// request never got to its end.
	BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*owed.Answer, error)

	// FinishRequest stores the answer.
	FinishRequest(ctx context.Context, uid int, key string, a owed.Answer) error

	// DropRequest forgets the request, so that it can be made anew.
	DropRequest(ctx context.Context, uid int, key string) error

	// RequestMade returns the id of the claim or the task made for the request; empty for none.
	RequestMade(ctx context.Context, uid int, key string) (string, error)
}
