package broker

import (
	"context"

	"dibs/internal/claim"
)

// Spend notes what was used for a claim so far, see claim.Claimer.Spend.
func (b *Broker) Spend(ctx context.Context, id claim.ID, used claim.Usage) error {
	if used.None() {
		return nil
	}
	_, err := b.claimer.Spend(ctx, id, used)
	return err
}
