package broker

import (
	"errors"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/outbox/creation"
	"dibs/internal/reserve"
	"dibs/internal/task"
)

// RetryUnavailable is the delay before a retry when Notion gave none.
const RetryUnavailable = 5 * time.Second

// Problem converts an error of the broker for the API. It returns nil for unknown errors, such as
// that the daemon is stopping.
func (b *Broker) Problem(err error) *api.Problem {
	if journal, ok := errors.AsType[*claim.JournalError](err); ok {
		p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), api.Saying(err))
		p.RetryIn(journal.RetryAfter)
		return p
	}
	if denied, ok := errors.AsType[*claim.Denied](err); ok {
		p := b.denied(denied)
		if nothing, ok := errors.AsType[*NothingError](err); ok {
			summary := nothing.Summary
			summary.NextLeaseEndsAt = b.time(summary.NextLeaseEndsAt.Time)
			p.Summary = &summary
		}
		return p
	}
	if lost, ok := errors.AsType[*claim.Lost](err); ok {
		p := api.NewProblem(api.CodeClaimLost, api.Saying(lost))
		p.Holder = lost.Holder
		c := b.claim(lost.Claim)
		p.Claim, p.Task = &c, &c.Task
		return p
	}
	if ambiguous, ok := errors.AsType[*AmbiguousError](err); ok {
		if len(ambiguous.Claims) == 0 {
			return api.NewProblem(api.CodeUnknownClaim, ambiguous.Error())
		}
		p := api.NewProblem(api.CodeAmbiguousClaim, ambiguous.Error())
		p.Claims = each(ambiguous.Claims, b.claim)
		return p
	}
	if undone, ok := errors.AsType[*NotDoneError](err); ok {
		p := api.NewProblem(api.CodeNotDone, api.Collapse(undone.Error()))
		p.Task, p.Todos = new(b.ref(undone.Task)), undone.Todos
		return p
	}
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, invalid.Detail)
	}
	if draft, ok := errors.AsType[*task.DraftError](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, api.Collapse(draft.Detail))
	}
	if forbidden, ok := errors.AsType[*ForbiddenError](err); ok {
		p := api.NewProblem(api.CodeForbiddenAgent, forbidden.Detail)
		if forbidden.Agent == "" {
			p.Title = "The user may not do this"
		}
		return p
	}
	if p := b.reservationProblem(err); p != nil {
		return p
	}
	if unknown, ok := errors.AsType[*creation.UnknownError](err); ok {
		p := storeProblem(unknown.Err, err)
		p.Unknown = true
		return p
	}
	if store, ok := errors.AsType[*claim.StoreError](err); ok {
		return storeProblem(store, err)
	}
	switch {
	case errors.Is(err, claim.ErrUnknownClaim):
		return api.NewProblem(api.CodeUnknownClaim, api.Saying(err))
	case errors.Is(err, ErrNoTask), errors.Is(err, ErrNoName):
		return api.NewProblem(api.Code(claim.CodeNotFound), api.Saying(err))
	}
	return nil
}

func (b *Broker) denied(d *claim.Denied) *api.Problem {
	p := api.NewProblem(api.Code(d.Code), api.Collapse(d.Detail))
	p.Holder, p.Pattern = d.Holder, d.Pattern
	p.ExpiresAt = b.time(d.ExpiresAt)
	p.RetryIn(d.RetryAfter)
	if d.Code == claim.CodeNotionUnavailable && d.RetryAfter == 0 {
		p.RetryIn(RetryUnavailable)
	}
	if d.Reach == claim.ReachBarred && d.Code == claim.CodeLimitReached {
		p.Title = "The limit of the day is used up"
	}
	if len(d.Has) > 0 {
		p.Claims = each(d.Has, b.claim)
	}
	if d.Task.ID != "" {
		p.Task = new(b.ref(d.Task))
	}
	return p
}

// storeProblem converts Notion's error; err is the broker's error around it.
func storeProblem(store *claim.StoreError, err error) *api.Problem {
	detail := api.Saying(err)
	switch store.Kind {
	case claim.NotFound, claim.Trashed:
		return api.NewProblem(api.Code(claim.CodeNotFound), detail)
	case claim.Refused:
		return api.NewProblem(api.CodeNotionRefused, detail)
	}
	p := api.NewProblem(api.Code(claim.CodeNotionUnavailable), detail)
	p.RetryIn(store.RetryAfter)
	if store.RetryAfter == 0 {
		p.RetryIn(RetryUnavailable)
	}
	return p
}

// reservationProblem converts an error about reservations; nil for any other.
func (b *Broker) reservationProblem(err error) *api.Problem {
	if t, ok := errors.AsType[*reserve.Taken](err); ok {
		p := api.NewProblem(api.Code(claim.CodeReserved), api.Collapse(t.Error()))
		p.Title = "Somebody else has reserved it"
		p.Holder, p.ExpiresAt = t.By.Agent, b.time(t.Until)
		p.Pattern, p.Path, p.Reservation = t.Pattern, t.Asked, t.By.ID
		return p
	}
	if full, ok := errors.AsType[*reserve.Full](err); ok {
		p := api.NewProblem(api.Code(claim.CodeLimitReached), api.Collapse(full.Detail))
		p.Title = "As much is reserved as may be"
		if full.RetryAfter > 0 {
			p.TooOften(full.RetryAfter)
		}
		return p
	}
	if invalid, ok := errors.AsType[*reserve.InvalidError](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, api.Collapse(invalid.Detail))
	}
	if unknown, ok := errors.AsType[*reserve.UnknownError](err); ok {
		return api.NewProblem(api.CodeUnknownReservation, unknown.Error())
	}
	if others, ok := errors.AsType[*reserve.NotOwnerError](err); ok {
		p := api.NewProblem(api.CodeForbiddenAgent, others.Error())
		p.Holder, p.Reservation = others.Agent, others.ID
		return p
	}
	return nil
}
