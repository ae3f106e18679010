package journal

import (
	"context"

	"dibs/internal/claim"
)

// maxLosses is how many losses of an agent are looked at: far more than it may have
// missed.
const maxLosses = 100

// lossOf is the column loss of a claim: nil if it is none. An agent that was done with
// the task, and only not heard by Notion, has lost nothing that it still counts on.
func lossOf(c claim.Hold) any {
	if c.Taken() && c.Finish == nil {
		return "untold"
	}
	return nil
}

// Losses returns the newest claims that were taken from the agent, the newest first.
func (j *Journal) Losses(ctx context.Context, agent string) ([]claim.Loss, error) {
	losses, err := collect(ctx, j.readers, scanLoss, `
		SELECT body, loss = 'told', NOT EXISTS (
		           SELECT 1 FROM claims AS later
		            WHERE later.agent = claims.agent AND later.id > claims.id AND later.started > 0)
		  FROM claims
		 WHERE agent = ? AND loss IS NOT NULL
		 ORDER BY id DESC LIMIT ?`, agent, maxLosses)
	return losses, j.failed(err, "reading the losses of %s", agent)
}

// LossNotified records that the agent was told that its claim was taken. It does nothing for a
// claim that was not taken.
func (j *Journal) LossNotified(ctx context.Context, id claim.ID) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE claims SET loss = 'told' WHERE id = ? AND loss = 'untold'", id)
		return err
	})
	return j.failed(err, "noting that the loss of claim %s was told", id)
}

func scanLoss(row scanner) (claim.Loss, error) {
	var body []byte
	var l claim.Loss
	if err := row.Scan(&body, &l.Told, &l.Last); err != nil {
		return l, err
	}
	var err error
	l.Hold, err = decodeClaim(body)
	return l, err
}
