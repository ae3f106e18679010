package broker

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// Reservations keeps the reservations of files and other things. Its times are Notion's. Its
// methods are safe for concurrent use.
type Reservations interface {
	Reserve(context.Context, reserve.Request) (reserve.Reservation, error)
	Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error)
	Find(ctx context.Context, id string) (reserve.Reservation, error)
	List(ctx context.Context, agent string) []reserve.Reservation
	Compared(ctx context.Context, agent, member string) []reserve.Reservation
	Check(ctx context.Context, agent, member string, targets []reserve.Target) error
	Claimed(claim.Hold)
}

// Reserve reserves everything that r asks for, or nothing. The reservation ends with the claim of,
// which must be the agent's; the zero Ref is none. The error is one of reserve.Book's, or of
// Lookup's.
func (b *Broker) Reserve(ctx context.Context, r reserve.Request, of Ref) (api.Reserved, error) {
	if of != (Ref{}) {
		cl, err := b.lookup(ctx, of)
		if err != nil {
			return api.Reserved{}, err
		}
		r.Claim = cl.ID
	}
	made, err := b.reserved.Reserve(ctx, r)
	b.notifiedByError(ctx, err)
	if err != nil {
		return api.Reserved{}, err
	}
	return api.Reserved{Reservation: b.reservation(made)}, nil
}

func (b *Broker) reservation(r reserve.Reservation) api.Reservation {
	return api.Reservation{
		ID: r.ID, Patterns: r.Patterns(), Agent: r.Agent, ExpiresAt: b.time(r.Until), Shared: r.Shared,
		Folder: r.Folder, MadeAt: b.time(r.Made), ClaimID: r.Claim, PID: r.Process.ID, Member: r.Member,
	}
}

// Unreserve ends a reservation. agent, if not empty, must be its owner, and the caller must be
// allowed to use the owner's name. The error is one of reserve.Book's, or of Authorize's.
func (b *Broker) Unreserve(ctx context.Context, id, agent string, who Caller) (api.Reserved, error) {
	r, err := b.reserved.Find(ctx, id)
	if err != nil {
		return api.Reserved{}, err
	}
	if err := b.Authorize(r.Agent, who); err != nil {
		return api.Reserved{}, err
	}
	if r, err = b.reserved.Unreserve(ctx, id, agent); err != nil {
		return api.Reserved{}, err
	}
	return api.Reserved{Reservation: b.reservation(r)}, nil
}

// Reservations returns the reservations of an agent, or of all if empty, oldest first.
func (b *Broker) Reservations(ctx context.Context, agent string) api.Reservations {
	return api.Reservations{Reservations: each(b.reserved.List(ctx, agent), b.reservation)}
}

// ComparedReservations is Reservations with the targets that a member needs for a reserve.Set.
func (b *Broker) ComparedReservations(ctx context.Context, agent, member string) api.Reservations {
	return api.Reservations{Reservations: each(b.reserved.Compared(ctx, agent, member), func(r reserve.Reservation) api.Reservation {
		out := b.reservation(r)
		out.Targets = each(r.Targets, func(t reserve.Target) api.ReserveTarget {
			return api.ReserveTarget{Pattern: t.Text, Files: t.Files, At: each(t.At, func(s reserve.Spot) api.Spot { return api.Spot{In: s.Place, Path: s.Path} })}
		})
		return out
	})}
}

// CheckReserved checks that the agent may touch the targets on a member's machine. The error is a
// *reserve.Taken if it may not.
func (b *Broker) CheckReserved(ctx context.Context, agent, member string, targets []reserve.Target) (api.Checked, error) {
	if err := b.reserved.Check(ctx, agent, member, targets); err != nil {
		return api.Checked{}, err
	}
	return api.Checked{Paths: each(targets, func(t reserve.Target) string { return t.Text })}, nil
}
