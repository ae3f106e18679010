package daemon

import (
	"context"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/reserve"
)

// shelf is a shelf in etcd, of which it is not asked while it is known that it cannot answer.
// Its errors are *claim.ArbiterError.
type shelf struct {
	shelf  *arbiter.Shelf
	ledger *arbiter.Ledger
}

func (s shelf) All(ctx context.Context) (things map[string][]byte, at int64, err error) {
	err = s.ledger.Ask(ctx, func(ctx context.Context) (err error) {
		things, at, err = s.shelf.All(ctx)
		return err
	})
	return things, at, err
}

func (s shelf) Put(ctx context.Context, id string, thing []byte, lasting time.Duration, at int64) (done bool, err error) {
	err = s.ledger.Ask(ctx, func(ctx context.Context) (err error) {
		done, err = s.shelf.Put(ctx, id, thing, lasting, at)
		return err
	})
	return done, err
}

func (s shelf) Delete(ctx context.Context, id string) error {
	return s.ledger.Ask(ctx, func(ctx context.Context) error { return s.shelf.Delete(ctx, id) })
}

func (s shelf) Await(ctx context.Context, since int64) error { return s.shelf.Await(ctx, since) }

// reservedElsewhere is what the other members of the cluster have reserved; nil without one.
func (d *works) reservedElsewhere() *reserve.Cluster {
	if d.member == nil {
		return nil
	}
	return &reserve.Cluster{Shelf: shelf{d.member.Shelf("reservations"), d.member.ledger}, Member: d.member.Member(), Name: d.member.name}
}
