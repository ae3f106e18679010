package broker

import (
	"context"

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
	Compared(ctx context.Context, agent, member string) []reserve.Reservation
	Check(ctx context.Context, agent, member string, targets []reserve.Target) error
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
	return made, err
}

// Unreserve ends a reservation; agent, if it is not empty, has to be whose it is.
func (b *Broker) Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error) {
	return b.reserved.Unreserve(ctx, id, agent)
}

// Reservation returns one that is there.
func (b *Broker) Reservation(ctx context.Context, id string) (reserve.Reservation, error) {
	return b.reserved.Find(ctx, id)
}

// Reservations returns what is reserved, oldest first: by one agent, or by all.
func (b *Broker) Reservations(ctx context.Context, agent string) []reserve.Reservation {
	return b.reserved.List(ctx, agent)
}

// ComparedReservations is Reservations with what a reserve.Set is made of at a member.
func (b *Broker) ComparedReservations(ctx context.Context, agent, member string) []reserve.Reservation {
	return b.reserved.Compared(ctx, agent, member)
}

// CheckReserved reports as *reserve.Taken what of the targets, on the machine of a member, an
// agent may not touch.
func (b *Broker) CheckReserved(ctx context.Context, agent, member string, targets []reserve.Target) error {
	return b.reserved.Check(ctx, agent, member, targets)
}
