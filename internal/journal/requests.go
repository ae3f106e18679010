package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

var errNoRequest = errors.New("no unanswered request has this key")

// keptRequests is how many requests are kept for one user. The oldest answered ones are
// forgotten first, except those whose claims live or whose tasks are still owed.
const keptRequests = 10_000

// BeginRequest begins a request with an idempotency key. Keys are per user; uid is -1 for an
// unknown one. The first caller gets nil, and owns the key until it calls FinishRequest or
// DropRequest. Once it has finished, later callers get its answer. fingerprint identifies the
// request: who asks, and everything that decides what it asks for. The error is outbox.ErrReused
// if the key belongs to a request with another fingerprint, or outbox.ErrUnanswered.
func (j *Journal) BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*outbox.Answer, error) {
	var prior *outbox.Answer
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
				 WHERE uid = ?1 AND nth <= (SELECT max(nth) FROM requests WHERE uid = ?1) - ?2 AND status <> 0 AND NOT `+unfinished,
				uid, keptRequests)
			return err
		}
		var first string
		var a outbox.Answer
		err = tx.QueryRowContext(ctx, "SELECT fingerprint, status, body FROM requests WHERE uid = ? AND key = ?", uid, key).
			Scan(&first, &a.Status, &a.Body)
		switch {
		case err != nil:
			return err
		case first != fingerprint:
			return outbox.ErrReused
		case a.Status == 0:
			return outbox.ErrUnanswered
		}
		prior = &a
		return nil
	})
	if err != nil {
		return nil, j.failed(err, "noting the request")
	}
	return prior, nil
}

// BindRequest notes which claim is made for the request of that user and key, before the claim
// is reserved. It replaces an earlier one.
func (j *Journal) BindRequest(ctx context.Context, uid int, key string, id claim.ID) error {
	return j.changeRequest(ctx, uid, key, "made = ?", id)
}

// RequestMade returns the id of the claim or intent made for the request of that user and key;
// empty if there is none.
func (j *Journal) RequestMade(ctx context.Context, uid int, key string) (string, error) {
	var id sql.NullString
	err := j.readers.QueryRowContext(ctx, "SELECT made FROM requests WHERE uid = ? AND key = ?", uid, key).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", j.failed(err, "noting the request")
	}
	return id.String, nil
}

// FinishRequest stores the answer to the request of that user and key.
func (j *Journal) FinishRequest(ctx context.Context, uid int, key string, a outbox.Answer) error {
	return j.changeRequest(ctx, uid, key, "status = ?, body = ?", a.Status, a.Body)
}

// changeRequest changes the row of a request that has no answer yet.
func (j *Journal) changeRequest(ctx context.Context, uid int, key, set string, args ...any) error {
	err := j.write(ctx, func(tx *tx) error { return changeRequest(ctx, tx, uid, key, set, args...) })
	return j.failed(err, "noting the request")
}

func changeRequest(ctx context.Context, tx *tx, uid int, key, set string, args ...any) error {
	n, err := affect(ctx, tx, "UPDATE requests SET "+set+" WHERE uid = ? AND key = ? AND status = 0", append(args, uid, key)...)
	if err == nil && n == 0 {
		err = errNoRequest
	}
	return err
}

// DropRequest forgets the request of that user and key, so that it can be sent anew. It does
// nothing if the request has an answer.
func (j *Journal) DropRequest(ctx context.Context, uid int, key string) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM requests WHERE uid = ? AND key = ? AND status = 0", uid, key)
		return err
	})
	return j.failed(err, "noting the request")
}

// unfinished is a condition on requests: the claim made for it lives, or what is left of its attempt,
// or the task is still owed.
const unfinished = `(EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.made AND claims.state <> 'ended')
	OR EXISTS (SELECT 1 FROM marks WHERE marks.id = requests.made AND marks.ended = 0)
	OR EXISTS (SELECT 1 FROM owed WHERE owed.id = requests.made AND owed.state <> 'delivered'))`

// recoverRequests forgets the requests that the last process left unanswered, except those that
// made something: what has become of that is their answer, whenever somebody asks again.
func recoverRequests(ctx context.Context, tx *tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM requests WHERE status = 0 AND made IS NULL")
	return err
}
