package broker

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

// Keep binds the claim to a process: the claim is kept alive while the process lives. It also
// renews the claim, see Renew.
func (b *Broker) Keep(ctx context.Context, r Ref, k keepers.Keeper) (api.Claim, error) {
	return b.answer(b.keep(ctx, r, k))
}

func (b *Broker) keep(ctx context.Context, r Ref, k keepers.Keeper) (claim.Hold, error) {
	cl, err := b.renew(ctx, r)
	if err != nil {
		return cl, err
	}
	return cl, b.alive.Keep(ctx, cl.ID, k)
}

// Adopt is Keep for a claim whose keepers are all gone. It changes no other claim. It returns the
// claim as it is afterwards.
func (b *Broker) Adopt(ctx context.Context, r Ref, k keepers.Keeper) (api.Claim, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil || !b.alive.KeepersGone(cl.ID) {
		return b.answer(cl, err)
	}
	r.Claim = string(cl.ID)
	return b.Keep(ctx, r, k)
}

// Connect renews the claim and keeps it alive for a connection: until leave is called, and for the
// grace period after that. If the renewal is pending, Connect keeps nothing alive and leave is nil.
// The error is one of Renew's.
func (b *Broker) Connect(ctx context.Context, r Ref, grace time.Duration) (c api.Claim, leave func(), err error) {
	cl, err := b.renew(ctx, r)
	if err == nil {
		leave, err = b.alive.Connect(ctx, cl.ID, grace)
	}
	c, err = b.answer(cl, err)
	return c, leave, err
}
