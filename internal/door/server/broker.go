package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/outbox"
)

// Broker is what the socket gives access to. Each role stands beside the operations that need it.
// Its times are this machine's.
type Broker interface {
	Claims
	Tasks
	Offers
	Inbox
	Agents
	Reservations
	Records
	Upkeep
	Brake

	// Problem converts an error of the broker; it returns nil for an unknown one.
	Problem(error) *api.Problem
}

// Journal stores the answers to requests with idempotency keys.
type Journal interface {
	// Away returns why the journal cannot be reached; nil if it can.
	Away() error

	// Over returns a channel that is closed when another daemon leads, so that nothing is stored
	// here any more: the caller's door then asks that daemon. It is nil if that never happens.
	Over() <-chan struct{}

	// BeginRequest begins a request. The first caller gets nil and owns the key until it calls
	// FinishRequest or DropRequest; after FinishRequest, others get its answer. It fails with
	// outbox.ErrReused if the key belongs to a request with another fingerprint, and with
	// outbox.ErrUnanswered if an earlier owner was interrupted before it finished.
	BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*outbox.Answer, error)

	// FinishRequest stores the answer.
	FinishRequest(ctx context.Context, uid int, key string, a outbox.Answer) error

	// DropRequest forgets the request, so that it can be made again.
	DropRequest(ctx context.Context, uid int, key string) error

	// RequestMade returns the id of the claim or task made for the request; empty for none.
	RequestMade(ctx context.Context, uid int, key string) (string, error)
}
