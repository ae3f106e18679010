package daemon

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/server"
)

// keys is the journal's memory of idempotency keys, in the server's terms.
type keys struct{ journal *journal.Journal }

func (k keys) BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*server.Answer, error) {
	answer, err := k.journal.BeginRequest(ctx, uid, key, fingerprint, now)
	switch {
	case errors.Is(err, journal.ErrKeyReused):
		return nil, server.ErrKeyReused
	case errors.Is(err, journal.ErrInterrupted), errors.Is(err, journal.ErrInFlight):
		// The server keeps requests of this process apart by itself, so one that
		// is on record as in flight is one that ended without an answer.
		return nil, server.ErrInterrupted
	case answer == nil:
		return nil, err
	}
	return &server.Answer{Status: answer.Status, Body: answer.Body}, err
}

func (k keys) FinishRequest(ctx context.Context, uid int, key string, a server.Answer) error {
	return k.journal.FinishRequest(ctx, uid, key, journal.Answer{Status: a.Status, Body: a.Body})
}

func (k keys) DropRequest(ctx context.Context, uid int, key string) error {
	return k.journal.DropRequest(ctx, uid, key)
}

func (k keys) RequestClaim(ctx context.Context, uid int, key string) (claim.ID, bool, error) {
	return k.journal.RequestClaim(ctx, uid, key)
}
