package server

import (
	"context"
	"errors"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// Reservations is what is reserved beside tasks.
type Reservations interface {
	// Reserve fails as Lookup does, and with *reserve.Taken, *reserve.Full or
	// *reserve.InvalidError.
	Reserve(ctx context.Context, r reserve.Request, of broker.Ref) (reserve.Reservation, error)

	// Unreserve fails with *reserve.UnknownError or *reserve.OthersError.
	Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error)

	// Reservation fails with *reserve.UnknownError.
	Reservation(ctx context.Context, id string) (reserve.Reservation, error)

	Reservations(ctx context.Context, agent string) []reserve.Reservation
	ComparedReservations(ctx context.Context, agent, member string) []reserve.Reservation

	// CheckReserved fails with *reserve.Taken or *reserve.InvalidError.
	CheckReserved(ctx context.Context, agent, member string, targets []reserve.Target) error
}

func (s *Server) reserve(ctx context.Context, in *api.KeyedInput[api.ReserveRequest]) (api.Reserved, error) {
	body := in.Body
	if err := s.broker.Authorize(body.Agent, asks(ctx)); err != nil {
		return api.Reserved{}, err
	}
	var process alive.Process
	if body.PID != 0 {
		var err error
		if process, err = s.ownProcess(ctx, body.PID); err != nil {
			return api.Reserved{}, err
		}
	}
	r := reserve.Request{
		Agent: body.Agent, UID: caller(ctx), Folder: body.Folder, Shared: body.Shared,
		For: time.Duration(body.ForSeconds * float64(time.Second)), Process: process, Member: guest(ctx).Member,
		Targets: each(body.Targets, func(t api.ReserveTarget) reserve.Target {
			return reserve.Target{Text: t.Pattern, At: each(t.At, spotOf), Files: t.Files}
		}),
	}
	var of broker.Ref
	if body.Claim != "" {
		var err error
		if of, err = s.refTo(ctx, body.Claim, body.Agent); err != nil {
			return api.Reserved{}, err
		}
	}
	made, err := s.broker.Reserve(ctx, r, of)
	if err != nil {
		return api.Reserved{}, err
	}
	return api.Reserved{Reservation: s.reservationOf(made)}, nil
}

func (s *Server) reservations(ctx context.Context, in *api.ListReservationsInput) (api.Reservations, error) {
	as := s.reservationOf
	list := s.broker.Reservations
	if in.Targets {
		list = func(ctx context.Context, agent string) []reserve.Reservation {
			return s.broker.ComparedReservations(ctx, agent, guest(ctx).Member)
		}
		as = func(r reserve.Reservation) api.Reservation {
			out := s.reservationOf(r)
			out.Targets = each(r.Targets, targetOf)
			return out
		}
	}
	return api.Reservations{Reservations: each(list(ctx, in.Agent), as)}, nil
}

func targetOf(t reserve.Target) api.ReserveTarget {
	return api.ReserveTarget{Pattern: t.Text, Files: t.Files, At: each(t.At, func(s reserve.Spot) api.Spot { return api.Spot{In: s.Place, Path: s.Path} })}
}

func (s *Server) unreserve(ctx context.Context, in *api.UnreserveInput) (api.Reserved, error) {
	r, err := s.broker.Reservation(ctx, in.ID)
	if err != nil {
		return api.Reserved{}, err
	}
	if err := s.broker.Authorize(r.Agent, asks(ctx)); err != nil {
		return api.Reserved{}, err
	}
	if r, err = s.broker.Unreserve(ctx, in.ID, in.Agent); err != nil {
		return api.Reserved{}, err
	}
	return api.Reserved{Reservation: s.reservationOf(r)}, nil
}

func (s *Server) check(ctx context.Context, in *api.CheckInput) (api.Checked, error) {
	var paths []string
	targets := each(in.Body.Targets, func(t api.CheckTarget) reserve.Target {
		paths = append(paths, t.Path)
		return reserve.Target{Text: t.Path, At: each(t.At, spotOf), Folder: t.Folder}
	})
	if err := s.broker.CheckReserved(ctx, in.Body.Agent, guest(ctx).Member, targets); err != nil {
		return api.Checked{}, err
	}
	return api.Checked{Paths: paths}, nil
}

func spotOf(s api.Spot) reserve.Spot { return reserve.Spot{Place: s.In, Path: s.Path} }

func (s *Server) reservationOf(r reserve.Reservation) api.Reservation {
	return s.localReservation(api.NewReservation(r))
}

func (s *Server) localReservation(r api.Reservation) api.Reservation {
	r.ExpiresAt, r.MadeAt = s.localTime(r.ExpiresAt.Time), s.localTime(r.MadeAt.Time)
	return r
}

// taken says who has what was asked for.
func (s *Server) taken(t *reserve.Taken) *api.Problem {
	p := api.NewProblem(api.Code(claim.CodeReserved), oneLine(t.Error()))
	p.Title = "Somebody else has reserved it"
	p.Holder, p.ExpiresAt = t.By.Agent, s.localTime(t.Until)
	p.Pattern, p.Path, p.Reservation = t.Pattern, t.Asked, t.By.ID
	return p
}

// reservationProblem says what an error of the reservations means; nil if it is none.
func reservationProblem(err error) *api.Problem {
	if full, ok := errors.AsType[*reserve.Full](err); ok {
		p := api.NewProblem(api.Code(claim.CodeLimitReached), oneLine(full.Detail))
		p.Title = "As much is reserved as may be"
		if full.RetryAfter > 0 {
			tooOften(p, full.RetryAfter)
		}
		return p
	}
	if invalid, ok := errors.AsType[*reserve.InvalidError](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, oneLine(invalid.Detail))
	}
	if unknown, ok := errors.AsType[*reserve.UnknownError](err); ok {
		return api.NewProblem(api.CodeUnknownReservation, unknown.Error())
	}
	if others, ok := errors.AsType[*reserve.OthersError](err); ok {
		p := api.NewProblem(api.CodeForbiddenAgent, others.Error())
		p.Holder, p.Reservation = others.Agent, others.ID
		return p
	}
	return nil
}
