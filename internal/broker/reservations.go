package broker

import (
	"context"
	"errors"
	"fmt"

	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// Reservations is who has reserved files and other things, beside tasks. Its times are
// Notion's. Its methods are safe for concurrent use.
type Reservations interface {
	Reserve(context.Context, reserve.Request) (reserve.Reservation, error)
	Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error)
	Find(ctx context.Context, id string) (reserve.Reservation, error)
	List(ctx context.Context, agent string) []reserve.Reservation
	Compared(ctx context.Context, agent string) []reserve.Reservation
	Check(ctx context.Context, agent string, targets []reserve.Target) error
	Claimed(claim.Claim)
}

// Reserve reserves all that r asks for, or nothing. of is the claim that the reservation
// ends with, which has to be the agent's; the zero Ref is none. The error is one of
// reserve.Book's, or of Lookup's.
func (b *Broker) Reserve(ctx context.Context, r reserve.Request, of Ref) (reserve.Reservation, error) {
	if of != (Ref{}) {
		cl, err := b.Lookup(ctx, of)
		if err != nil {
			return reserve.Reservation{}, err
		}
		r.Claim = cl.ID
	}
	made, err := b.reserved.Reserve(ctx, r)
	b.tell(ctx, err)
	return made, undecided("nothing is reserved", err)
}

// undecided says what is not done for want of an arbiter, if that is what err says.
func undecided(what string, err error) error {
	if failed, ok := errors.AsType[*claim.ArbiterError](err); ok {
		return &claim.ArbiterError{RetryAfter: failed.RetryAfter, Err: fmt.Errorf("%s without the cluster's etcd: %w", what, failed.Err)}
	}
	return err
}

// Unreserve ends a reservation; agent, if it is not empty, has to be whose it is.
func (b *Broker) Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error) {
	r, err := b.reserved.Unreserve(ctx, id, agent)
	return r, undecided("what was reserved at another member is not given back", err)
}

// Reservation returns one that is there.
func (b *Broker) Reservation(ctx context.Context, id string) (reserve.Reservation, error) {
	return b.reserved.Find(ctx, id)
}

// Reservations returns what is reserved, oldest first: by one agent, or by all.
func (b *Broker) Reservations(ctx context.Context, agent string) []reserve.Reservation {
	return b.reserved.List(ctx, agent)
}

// ComparedReservations is Reservations with what a reserve.Set is made of.
func (b *Broker) ComparedReservations(ctx context.Context, agent string) []reserve.Reservation {
	return b.reserved.Compared(ctx, agent)
}

// CheckReserved reports as *reserve.Taken what of the targets an agent may not touch.
func (b *Broker) CheckReserved(ctx context.Context, agent string, targets []reserve.Target) error {
	return b.reserved.Check(ctx, agent, targets)
}
