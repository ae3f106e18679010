package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/claim"
)

// Answer is what a request was answered.
type Answer struct {
	Status int
	Body   []byte
}

// Errors of BeginRequest.
var (
	// ErrKeyReused: the key belongs to another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request: use a new one")
	// ErrInFlight: the request is being worked on in this process.
	ErrInFlight = errors.New("a request with this idempotency key is being worked on")
	// ErrInterrupted: the daemon stopped while it worked on the request, and the
	// claim made for it lived on, see RequestClaim. The answer is to be made
	// from what has become of that claim.
	ErrInterrupted = errors.New("the daemon stopped while it worked on the request with this idempotency key")
)

var errNotUnanswered = errors.New("no unanswered request has it")

// keptRequests is how many requests of one user are on record at the most. Those
// that were answered longest ago are forgotten first, except those whose claims live.
const keptRequests = 10_000

// BeginRequest begins a request that carries an idempotency key, which is the key of
// that user, -1 for an unknown one. The first to
// begin it gets nil, and owns the key until it calls FinishRequest or
// DropRequest; after it finished, others get its answer. fingerprint tells
// requests apart: who asks, and everything that decides what a request asks for.
func (j *Journal) BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*Answer, error) {
	var prior *Answer
	err := j.write(ctx, func(tx *tx) error {
		prior = nil // of a first run, see writer
		n, err := affect(ctx, tx, `
			INSERT INTO requests (uid, key, nth, fingerprint, created)
			VALUES (?1, ?2, 1 + coalesce((SELECT max(nth) FROM requests WHERE uid = ?1), 0), ?3, ?4)
			    ON CONFLICT (uid, key) DO NOTHING`, uid, key, fingerprint, millis(now))
		if err != nil {
			return err
		}
		if n > 0 {
			_, err := tx.ExecContext(ctx, `
				DELETE FROM requests
				 WHERE uid = ?1 AND nth <= (SELECT max(nth) FROM requests WHERE uid = ?1) - ?2 AND state = 'answered'
				   AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.claim_id AND claims.state <> 'ended')`,
				uid, keptRequests)
			return err
		}
		var first, state string
		var a Answer
		err = tx.QueryRowContext(ctx, "SELECT fingerprint, state, status, body FROM requests WHERE uid = ? AND key = ?", uid, key).
			Scan(&first, &state, &a.Status, &a.Body)
		switch {
		case err != nil:
			return err
		case first != fingerprint:
			return ErrKeyReused
		case state == "in_flight":
			return ErrInFlight
		case state == "interrupted":
			return ErrInterrupted
		}
		prior = &a
		return nil
	})
	if err != nil {
		return nil, j.failed(err, "noting the request")
	}
	return prior, nil
}

// BindRequest notes, before the claim is reserved, which claim is made for the
// request of that user and key. A later one takes the place of an earlier one.
func (j *Journal) BindRequest(ctx context.Context, uid int, key string, id claim.ID) error {
	return j.changeRequest(ctx, uid, key, "claim_id = ?", id)
}

// RequestClaim returns the claim made for the request of that user and key, and
// false if there is none.
func (j *Journal) RequestClaim(ctx context.Context, uid int, key string) (claim.ID, bool, error) {
	var id sql.NullString
	err := j.readers.QueryRowContext(ctx, "SELECT claim_id FROM requests WHERE uid = ? AND key = ?", uid, key).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", false, j.failed(err, "noting the request")
	}
	return claim.ID(id.String), id.Valid, nil
}

// FinishRequest stores the answer to the request of that user and key.
func (j *Journal) FinishRequest(ctx context.Context, uid int, key string, a Answer) error {
	return j.changeRequest(ctx, uid, key, "state = 'answered', status = ?, body = ?", a.Status, a.Body)
}

// changeRequest changes the row of a request that has no answer yet.
func (j *Journal) changeRequest(ctx context.Context, uid int, key, set string, args ...any) error {
	err := j.write(ctx, func(tx *tx) error {
		n, err := affect(ctx, tx, "UPDATE requests SET "+set+" WHERE uid = ? AND key = ? AND state <> 'answered'", append(args, uid, key)...)
		if err == nil && n == 0 {
			err = errNotUnanswered
		}
		return err
	})
	return j.failed(err, "noting the request")
}

// DropRequest forgets the request of that user and key, so that it can be made anew.
// An answer that was stored stays.
func (j *Journal) DropRequest(ctx context.Context, uid int, key string) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM requests WHERE uid = ? AND key = ? AND state <> 'answered'", uid, key)
		return err
	})
	return j.failed(err, "noting the request")
}

// recoverRequests ends the requests that the last process was working on: the
// claim made for one may live, and it is forgotten otherwise.
func recoverRequests(ctx context.Context, tx *tx) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE requests SET state = 'interrupted'
		 WHERE state = 'in_flight' AND claim_id IN (SELECT id FROM claims WHERE state <> 'ended')`)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM requests WHERE state = 'in_flight'")
	return err
}
