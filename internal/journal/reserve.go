package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
)

// Reserve gives the task of c to c, unless another claim has it or the agent has
// as many other tasks as it may. See [claim.Ledger].
//
// c is stored in state reserved. A refusal is recorded as a denial, and when
// both reasons apply, the claim that has the task is the one given.
func (j *Journal) Reserve(ctx context.Context, c claim.Claim, now time.Time, limit int) (*claim.Refusal, error) {
	c.State = claim.Reserved
	var refusal *claim.Refusal
	err := j.write(ctx, func(tx *tx) error {
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
			return insertClaim(ctx, tx, c)
		}
		refusal, err = whyRefused(ctx, tx, c, now)
		if err != nil {
			return err
		}
		return insertEvents(ctx, tx, denial(c, now, limit, refusal))
	})
	if err != nil {
		return nil, j.failed(err, "reserving task %s for %s", c.Task.ID, c.Agent)
	}
	return refusal, nil
}

// whyRefused finds out, in the transaction that refused c, why it did.
func whyRefused(ctx context.Context, tx *tx, c claim.Claim, now time.Time) (*claim.Refusal, error) {
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

// denial is the event of c having been refused.
func denial(c claim.Claim, now time.Time, limit int, why *claim.Refusal) claim.Event {
	e := claim.Event{
		ID: claim.NewEventID(now), At: now, Kind: claim.KindDenied,
		Task: c.Task.ID, Title: c.Task.Title, URL: c.Task.URL,
		Agent: c.Agent, Claim: c.ID,
	}
	holder := why.Holder
	if holder == nil {
		e.Code = claim.CodeLimitReached
		e.Detail = fmt.Sprintf("%s has as many tasks as it may have at a time (%d)", c.Agent, limit)
		return e
	}
	e.Code, e.Holder, e.Against = claim.CodeHeld, holder.Agent, holder.ID
	e.Title = cmp.Or(e.Title, holder.Task.Title)
	e.URL = cmp.Or(e.URL, holder.Task.URL)
	switch holder.State {
	case claim.Held:
		e.Detail = fmt.Sprintf("held by %s until %s", holder.Agent, holder.ExpiresAt().UTC().Format(time.RFC3339))
	case claim.Finishing:
		e.Detail = fmt.Sprintf("finished by %s, which Notion is still to be told", holder.Agent)
	default:
		e.Detail = fmt.Sprintf("being claimed by %s", holder.Agent)
	}
	return e
}
