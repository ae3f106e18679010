package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/claim"
)

// Reserve reserves the task of c for c, unless another claim has it or the agent has reached
// limit with other tasks. See [claim.Ledger].
//
// It refuses whatever the task during a pause, or once a limit of the day is used up.
//
// c is stored in state reserved. A refusal is recorded as a denial, or counted with the agent's
// earlier one. If both reasons apply, the refusal names the claim that has the task.
func (j *Journal) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	c.State = claim.Reserved
	var refusal *claim.Refusal
	var fence int64
	err := j.write(ctx, func(tx *tx) error {
		refusal, fence = nil, 0 // of a first run, see writer
		if barred, err := j.barred(ctx, tx, c, now); err != nil {
			return err
		} else if barred != nil {
			refusal = &claim.Refusal{Barred: barred}
			return recordDenial(ctx, tx, refusal.Fact(c, now, limit))
		}
		won, err := affect(ctx, tx, `
			INSERT INTO reservations (task_id, claim_id, agent, until)
			SELECT ?1, ?2, ?3, ?4
			 WHERE ?5 <= 0
			    OR ?5 > (SELECT count(*) FROM reservations WHERE agent = ?3 AND task_id <> ?1)
			    ON CONFLICT (task_id) DO UPDATE
			   SET claim_id = excluded.claim_id, agent = excluded.agent, until = excluded.until
			 WHERE reservations.until <= ?6`,
			c.Task.ID, c.ID, c.Agent, until(c), limit, now.UnixMilli())
		if err != nil {
			return err
		}
		if won > 0 {
			if fence, err = nextFence(ctx, tx, now); err != nil {
				return err
			}
			c.Fence = fence
			if _, err := writeClaim(ctx, tx, c, ""); err != nil {
				return err
			}
			return j.admit(ctx, tx, c, now)
		}
		refusal, err = whyRefused(ctx, tx, c, now)
		if err != nil {
			return err
		}
		return recordDenial(ctx, tx, refusal.Fact(c, now, limit))
	})
	if err != nil {
		return 0, nil, j.failed(err, "reserving task %s for %s", c.Task.ID, c.Agent)
	}
	return fence, refusal, nil
}

// nextFence returns a number larger than all before it. It starts from the current millisecond,
// so that a journal that was lost or restored goes on above the numbers it once gave out.
func nextFence(ctx context.Context, tx *tx, now time.Time) (fence int64, err error) {
	err = tx.QueryRowContext(ctx, `
		UPDATE fence SET last = CASE WHEN last < ?1 THEN ?1 ELSE last + 1 END
		RETURNING last`, now.UnixMilli()).Scan(&fence)
	return fence, err
}

// whyRefused returns why the transaction refused c. It runs in the same transaction.
func whyRefused(ctx context.Context, tx *tx, c claim.Hold, now time.Time) (*claim.Refusal, error) {
	holder, err := scanClaim(tx.QueryRowContext(ctx, `
		SELECT claims.body FROM reservations JOIN claims ON claims.id = reservations.claim_id
		 WHERE reservations.task_id = ? AND reservations.until > ?`, c.Task.ID, now.UnixMilli()))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &claim.Refusal{Limit: true}, nil
	case err != nil:
		return nil, err
	}
	return &claim.Refusal{Holder: &holder}, nil
}
