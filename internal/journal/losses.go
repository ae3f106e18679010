package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"dibs/internal/claim"
)

// maxLosses is how many losses of an agent are looked at: far more than it may have
// missed.
const maxLosses = 100

// lossOf is the column loss of a claim: nil if it is none. An agent that was done with
// the task, and only not heard by Notion, has lost nothing that it still counts on.
func lossOf(c claim.Claim) any {
	if c.Taken() && c.Finish == nil {
		return "untold"
	}
	return nil
}

// noteBeside notes which claims the agent held when this one was lost, if it was.
func noteBeside(ctx context.Context, tx *tx, c claim.Claim) error {
	if lossOf(c) == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE claims
		   SET beside = (SELECT json_group_array(other.id) FROM claims AS other
		                  WHERE other.state <> 'ended' AND other.agent = claims.agent AND other.state IN ('held', 'finishing'))
		 WHERE id = ?`, c.ID)
	return err
}

// Losses returns the newest claims that were taken from the agent, the newest first.
func (j *Journal) Losses(ctx context.Context, agent string) ([]claim.Loss, error) {
	losses, err := collect(ctx, j.readers, scanLoss, `
		SELECT body, coalesce(beside, '[]'), loss = 'told', NOT EXISTS (
		           SELECT 1 FROM claims later
		            WHERE later.agent = claims.agent AND later.id > claims.id
		              AND json_extract(later.body, '$.started_at') IS NOT NULL)
		  FROM claims
		 WHERE agent = ? AND loss IS NOT NULL
		 ORDER BY id DESC LIMIT ?`, agent, maxLosses)
	return losses, j.failed(err, "reading the losses of %s", agent)
}

// Told notes that the agent of a claim was told that it was taken; of any other claim,
// nothing.
func (j *Journal) Told(ctx context.Context, id claim.ID) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE claims SET loss = 'told' WHERE id = ? AND loss = 'untold'", id)
		return err
	})
	return j.failed(err, "noting that the loss of claim %s was told", id)
}

func scanLoss(row scanner) (claim.Loss, error) {
	var body, beside []byte
	var l claim.Loss
	if err := row.Scan(&body, &beside, &l.Told, &l.Last); err != nil {
		return l, err
	}
	err := json.Unmarshal(beside, &l.Beside)
	if err != nil {
		return l, fmt.Errorf("the claims beside a lost one: %w", err)
	}
	l.Claim, err = decodeClaim(body)
	return l, err
}
