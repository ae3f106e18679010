package claim

import "context"

// Spend notes what the agent of a claim has used for it so far, and returns the claim. It does so
// in any state of a claim that was granted, also once that has ended: what was used is gone. The
// error is ErrUnknownClaim, or the ledger's.
func (c *Claimer) Spend(ctx context.Context, id ID, report Usage) (Hold, error) {
	h, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	defer unlock()
	used, grew := h.Used.grown(report, c.store.Now())
	if !grew || h.Started.IsZero() {
		return h, nil
	}
	h.Used = used
	ch := holding(h)
	if h.State == Ended {
		ch = Change{Used: []Hold{h}}
	}
	return h, c.commit(ctx, ch)
}
