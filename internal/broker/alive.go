package broker

import (
	"context"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/claim"
)

// Keep has a process keep the claim that r means alive from now on, and notes that its
// agent is, see Renew.
func (b *Broker) Keep(ctx context.Context, r Ref, k alive.Keeper) (api.Claim, error) {
	return b.answer(b.keep(ctx, r, k))
}

func (b *Broker) keep(ctx context.Context, r Ref, k alive.Keeper) (claim.Hold, error) {
	cl, err := b.renew(ctx, r)
	if err != nil {
		return cl, err
	}
	return cl, b.alive.Keep(ctx, cl.ID, k)
}

// Adopt is Keep if the claim that r means had keepers, and all of them are gone. Else it
// changes nothing, and returns the claim as it is.
func (b *Broker) Adopt(ctx context.Context, r Ref, k alive.Keeper) (api.Claim, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil || !b.alive.KeepersGone(cl.ID) {
		return b.answer(cl, err)
	}
	return b.Keep(ctx, Ref{Claim: string(cl.ID), Agent: r.Agent}, k)
}

// Connect has a connection keep the claim that r means alive until leave is called, and
// then for its grace. While the renewal is pending it does not, and leave is nil. The error is
// one of Renew's.
func (b *Broker) Connect(ctx context.Context, r Ref, grace time.Duration) (c api.Claim, leave func(), err error) {
	cl, err := b.renew(ctx, r)
	if err == nil {
		leave, err = b.alive.Connect(ctx, cl.ID, grace)
	}
	c, err = b.answer(cl, err)
	return c, leave, err
}
