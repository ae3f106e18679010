package broker

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/reserve"
)

// Reserve reserves everything that the request names, or nothing. The error is one of reserve.Book's,
// or of Lookup's, if the reservation is to end with a claim.
func (b *Broker) Reserve(ctx context.Context, who Caller, in *api.KeyedInput[api.ReserveRequest]) (api.Reserved, error) {
	body := in.Body
	r := reserve.Request{
		Agent: body.Agent, UID: who.UID, Folder: body.Folder, Shared: body.Shared,
		For: seconds(body.ForSeconds), Process: who.Process, Member: who.Member,
	}
	for _, t := range body.Targets {
		r.Targets = append(r.Targets, reserve.Target{Text: t.Pattern, At: spotsOf(t.At), Files: t.Files})
	}
	if body.Claim != "" {
		cl, err := b.lookup(ctx, refTo(body.Claim, body.Agent))
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

func spotsOf(spots []api.Spot) []reserve.Spot {
	return each(spots, func(s api.Spot) reserve.Spot { return reserve.Spot{Place: s.In, Path: s.Path} })
}

func (b *Broker) reservation(r reserve.Reservation) api.Reservation {
	return api.Reservation{
		ID: r.ID, Patterns: r.Patterns(), Agent: r.Agent, ExpiresAt: b.time(r.Until), Shared: r.Shared,
		Folder: r.Folder, MadeAt: b.time(r.Made), ClaimID: r.Claim, PID: r.Process.ID, Member: r.Member,
	}
}

// Unreserve ends a reservation. The agent, if not empty, must be its owner, and the caller must be
// allowed to use the owner's name. The error is one of reserve.Book's, or of Authorize's.
func (b *Broker) Unreserve(ctx context.Context, who Caller, in *api.UnreserveInput) (api.Reserved, error) {
	r, err := b.reserved.Find(ctx, in.ID)
	if err != nil {
		return api.Reserved{}, err
	}
	if err := b.Authorize(r.Agent, who); err != nil {
		return api.Reserved{}, err
	}
	if r, err = b.reserved.Unreserve(ctx, in.ID, in.Agent); err != nil {
		return api.Reserved{}, err
	}
	return api.Reserved{Reservation: b.reservation(r)}, nil
}

// Reservations returns the reservations of an agent, or of all if empty, oldest first. With targets it
// returns those that the caller's member needs for a reserve.Set, with their targets.
func (b *Broker) Reservations(ctx context.Context, who Caller, in *api.ListReservationsInput) (api.Reservations, error) {
	if !in.Targets {
		return api.Reservations{Reservations: each(b.reserved.List(ctx, in.Agent), b.reservation)}, nil
	}
	return api.Reservations{Reservations: each(b.reserved.Compared(ctx, in.Agent, who.Member), func(r reserve.Reservation) api.Reservation {
		out := b.reservation(r)
		out.Targets = each(r.Targets, func(t reserve.Target) api.ReserveTarget {
			return api.ReserveTarget{Pattern: t.Text, Files: t.Files, At: each(t.At, func(s reserve.Spot) api.Spot { return api.Spot{In: s.Place, Path: s.Path} })}
		})
		return out
	})}, nil
}

// Check checks that the agent may touch files on the caller's machine. The error is a *reserve.Taken
// if it may not, or a *reserve.InvalidError.
func (b *Broker) Check(ctx context.Context, who Caller, in *api.CheckInput) (api.Checked, error) {
	targets := each(in.Body.Targets, func(t api.CheckTarget) reserve.Target {
		return reserve.Target{Text: t.Path, At: spotsOf(t.At), Folder: t.Folder}
	})
	if err := b.reserved.Check(ctx, in.Body.Agent, who.Member, targets); err != nil {
		return api.Checked{}, err
	}
	return api.Checked{Paths: each(targets, func(t reserve.Target) string { return t.Text })}, nil
}
