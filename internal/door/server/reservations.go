package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim/keepers"
	"dibs/internal/reserve"
)

// Reservations reserves files and other things.
type Reservations interface {
	// Reserve fails as Lookup does, and with *reserve.Taken, *reserve.Full or
	// *reserve.InvalidError.
	Reserve(ctx context.Context, r reserve.Request, of broker.Ref) (api.Reserved, error)

	// Unreserve fails with *reserve.UnknownError or *reserve.NotOwnerError, and as Authorize does.
	Unreserve(ctx context.Context, id, agent string, who broker.Caller) (api.Reserved, error)

	Reservations(ctx context.Context, agent string) api.Reservations
	ComparedReservations(ctx context.Context, agent, member string) api.Reservations

	// CheckReserved fails with *reserve.Taken or *reserve.InvalidError.
	CheckReserved(ctx context.Context, agent, member string, targets []reserve.Target) (api.Checked, error)
}

func (s *Server) reserve(ctx context.Context, in *api.KeyedInput[api.ReserveRequest]) (api.Reserved, error) {
	body := in.Body
	if err := s.broker.Authorize(body.Agent, asks(ctx)); err != nil {
		return api.Reserved{}, err
	}
	var process keepers.Process
	if body.PID != 0 {
		var err error
		if process, err = s.ownProcess(ctx, body.PID); err != nil {
			return api.Reserved{}, err
		}
	}
	r := reserve.Request{
		Agent: body.Agent, UID: caller(ctx), Folder: body.Folder, Shared: body.Shared,
		For: time.Duration(body.ForSeconds * float64(time.Second)), Process: process, Member: guest(ctx).Member,
	}
	for _, t := range body.Targets {
		r.Targets = append(r.Targets, reserve.Target{Text: t.Pattern, At: spotsOf(t.At), Files: t.Files})
	}
	var of broker.Ref
	if body.Claim != "" {
		var err error
		if of, err = s.refTo(ctx, body.Claim, body.Agent); err != nil {
			return api.Reserved{}, err
		}
	}
	return s.broker.Reserve(ctx, r, of)
}

func (s *Server) reservations(ctx context.Context, in *api.ListReservationsInput) (api.Reservations, error) {
	if in.Targets {
		return s.broker.ComparedReservations(ctx, in.Agent, guest(ctx).Member), nil
	}
	return s.broker.Reservations(ctx, in.Agent), nil
}

func (s *Server) unreserve(ctx context.Context, in *api.UnreserveInput) (api.Reserved, error) {
	return s.broker.Unreserve(ctx, in.ID, in.Agent, asks(ctx))
}

func (s *Server) check(ctx context.Context, in *api.CheckInput) (api.Checked, error) {
	var targets []reserve.Target
	for _, t := range in.Body.Targets {
		targets = append(targets, reserve.Target{Text: t.Path, At: spotsOf(t.At), Folder: t.Folder})
	}
	return s.broker.CheckReserved(ctx, in.Body.Agent, guest(ctx).Member, targets)
}

func spotsOf(spots []api.Spot) []reserve.Spot {
	out := make([]reserve.Spot, len(spots))
	for i, s := range spots {
		out[i] = reserve.Spot{Place: s.In, Path: s.Path}
	}
	return out
}
