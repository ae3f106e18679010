package broker

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

// keep binds the claim to a process: the claim is kept alive while the process lives. It also renews
// the claim.
func (b *Broker) keep(ctx context.Context, r ref, said claim.Report, k keepers.Keeper) (claim.Hold, error) {
	cl, err := b.renew(ctx, r, said)
	if err != nil {
		return cl, err
	}
	return cl, b.alive.Keep(ctx, cl.ID, k)
}

// adopt is keep for a claim whose keepers are all gone. It changes no other claim. It returns the
// claim as it is afterwards.
func (b *Broker) adopt(ctx context.Context, r ref, said claim.Report, k keepers.Keeper) (claim.Hold, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil || !b.alive.KeepersGone(cl.ID) {
		return cl, err
	}
	r.claim = string(cl.ID)
	return b.keep(ctx, r, said, k)
}

// longestGrace limits how long a claim waits for its connection to come back.
const longestGrace = time.Hour

// KeepAlive renews the claim and keeps it alive for a connection: until leave is called, and for the
// grace period after that. If the renewal is pending, it keeps nothing alive and leave is nil. The
// error is one of Renew's.
func (b *Broker) KeepAlive(ctx context.Context, _ Caller, in *api.KeepAliveInput) (c api.Claim, leave func(), err error) {
	grace, err := time.ParseDuration(in.Grace)
	if err != nil || grace < 0 || grace > longestGrace {
		return c, nil, api.Invalid("query.grace", fmt.Errorf("%q is not a time to wait: want one such as 60s, at most %v", in.Grace, longestGrace))
	}
	cl, err := b.renew(ctx, refTo(in.ID, in.Agent), claim.Report{})
	if err == nil {
		leave, err = b.alive.Connect(ctx, cl.ID, grace)
	}
	c, err = b.answer(cl, err)
	return c, leave, err
}
