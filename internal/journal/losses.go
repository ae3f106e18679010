package journal

import (
	"context"

	"dibs/internal/claim"
)

// maxLosses bounds the losses of an agent that are read: far more than it can have missed.
const maxLosses = 100

// lossOf returns the value of a claim's column loss, nil if it is no loss. An agent that had
// finished, and whose finish only did not reach Notion, lost nothing that it relies on.
func lossOf(c claim.Hold) any {
	if c.Taken() && c.Said() == nil {
		return "untold"
	}
	return nil
}

// Losses returns the newest claims taken from the agent, newest first.
func (j *Journal) Losses(ctx context.Context, agent string) ([]claim.Loss, error) {
	losses, err := collect(ctx, j.readers, scanLoss, `
		SELECT body, loss = 'told', NOT EXISTS (
		           SELECT 1 FROM claims AS later
		            WHERE later.agent = claims.agent AND later.id > claims.id AND later.started > 0)
		  FROM claims
		 WHERE agent = ? AND loss IS NOT NULL
		 ORDER BY id DESC`+upTo, agent, maxLosses)
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
	b, err := fromBody[claimBody](body, "claim")
	l.Hold = b.whole()
	return l, err
}
