package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/reserve"
	"dibs/internal/task"

	"github.com/danielgtaylor/huma/v2"
)

// retryUnavailable is when to try again if Notion did not say.
const retryUnavailable = 5 * time.Second

// failure carries a problem through huma, which wants to be told by methods
// what a problem already says.
type failure struct{ *api.Problem }

func (f failure) GetStatus() int            { return f.Status }
func (f failure) GetHeaders() http.Header   { return problemHeader(f.Problem) }
func (f failure) ContentType(string) string { return api.ProblemType }

// problemHeader returns the header fields that go with a problem.
func problemHeader(p *api.Problem) http.Header {
	if p.Status != http.StatusServiceUnavailable && p.Status != http.StatusTooManyRequests || p.RetryAfter == 0 {
		return nil
	}
	h := http.Header{"Retry-After": {strconv.Itoa(p.RetryAfter)}}
	if p.Code == api.CodeStopping {
		h.Set(standbyHeader, "1")
	}
	return h
}

// problem says in the language of the socket what an error of the broker means.
func (s *Server) problem(ctx context.Context, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return cutOff(ctx)
	}
	if journal, ok := errors.AsType[*claim.JournalError](err); ok {
		select {
		case <-s.over:
			return stopping()
		default:
		}
		p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), saying(err))
		p.RetryIn(journal.RetryAfter)
		return p
	}
	if denied, ok := errors.AsType[*claim.Denied](err); ok {
		p := s.denied(denied)
		if nothing, ok := errors.AsType[*broker.NothingError](err); ok {
			summary := nothing.Summary
			summary.NextLeaseEndsAt = s.localTime(summary.NextLeaseEndsAt.Time)
			p.Summary = &summary
		}
		return p
	}
	if lost, ok := errors.AsType[*claim.Lost](err); ok {
		return s.lost(lost)
	}
	if ambiguous, ok := errors.AsType[*broker.AmbiguousError](err); ok {
		if len(ambiguous.Claims) == 0 {
			return api.NewProblem(api.CodeUnknownClaim, ambiguous.Error())
		}
		p := api.NewProblem(api.CodeAmbiguousClaim, ambiguous.Error())
		p.Claims = each(ambiguous.Claims, s.claimOf)
		return p
	}
	if invalid, ok := errors.AsType[*broker.InvalidError](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, invalid.Detail)
	}
	if draft, ok := errors.AsType[*task.DraftError](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, oneLine(draft.Detail))
	}
	if forbidden, ok := errors.AsType[*broker.ForbiddenError](err); ok {
		return api.NewProblem(api.CodeForbiddenAgent, forbidden.Detail)
	}
	if taken, ok := errors.AsType[*reserve.Taken](err); ok {
		return s.taken(taken)
	}
	if p := reservationProblem(err); p != nil {
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
	case errors.Is(err, errStopping), errors.Is(err, broker.ErrStopping), errors.Is(err, claim.ErrStopped):
		return stopping()
	case errors.Is(err, creation.ErrReused):
		return api.NewProblem(api.CodeKeyReused, saying(err))
	case errors.Is(err, claim.ErrUnknownClaim):
		return api.NewProblem(api.CodeUnknownClaim, saying(err))
	case errors.Is(err, broker.ErrNoTask), errors.Is(err, broker.ErrNoName):
		return api.NewProblem(api.Code(claim.CodeNotFound), saying(err))
	}
	s.log.Error("a request failed", "error", err)
	return api.NewProblem(api.CodeInternal, saying(err))
}

// cutOff is the answer to a request that ended before it was worked off.
func cutOff(ctx context.Context) *api.Problem {
	if errors.Is(context.Cause(ctx), errStopping) {
		return stopping()
	}
	return api.NewProblem(api.CodeInternal, "the caller went away") // and will not read it
}

func stopping() *api.Problem {
	p := api.NewProblem(api.CodeStopping, errStopping.Error())
	p.RetryIn(time.Second)
	return p
}

func (s *Server) lost(lost *claim.Lost) *api.Problem {
	p := api.NewProblem(api.CodeClaimLost, saying(lost))
	p.Holder = lost.Holder
	c := s.claimOf(lost.Claim)
	p.Claim, p.Task = &c, &c.Task
	return p
}

func (s *Server) denied(d *claim.Denied) *api.Problem {
	p := api.NewProblem(api.Code(d.Code), oneLine(d.Detail))
	p.Holder = d.Holder
	p.ExpiresAt = s.localTime(d.ExpiresAt)
	p.RetryIn(d.RetryAfter)
	if d.Code == claim.CodeNotionUnavailable && d.RetryAfter == 0 {
		p.RetryIn(retryUnavailable)
	}
	if len(d.Has) > 0 {
		p.Claims = each(d.Has, s.claimOf)
	}
	if d.Task.ID != "" {
		ref := refOf(d.Task)
		p.Task = &ref
	}
	return p
}

// storeProblem translates what Notion answered; err is what the broker made of it.
func storeProblem(store *claim.StoreError, err error) *api.Problem {
	detail := saying(err)
	switch store.Kind {
	case claim.NotFound, claim.Trashed:
		return api.NewProblem(api.Code(claim.CodeNotFound), detail)
	case claim.Refused:
		return api.NewProblem(api.CodeNotionRefused, detail)
	}
	p := api.NewProblem(api.Code(claim.CodeNotionUnavailable), detail)
	p.RetryIn(store.RetryAfter)
	if store.RetryAfter == 0 {
		p.RetryIn(retryUnavailable)
	}
	return p
}

// ownProblems is a transformer that puts our problems in the place of huma's.
func ownProblems(_ huma.Context, _ string, value any) (any, error) {
	switch v := value.(type) {
	case failure:
		return v.Problem, nil
	case *huma.ErrorModel:
		return requestProblem(v), nil
	}
	return value, nil
}

// requestProblem translates what huma found wrong with a request.
func requestProblem(m *huma.ErrorModel) *api.Problem {
	p := api.NewProblem(api.CodeInvalidRequest, m.Detail)
	p.Status = m.Status // 400 for what is no JSON at all
	var details []string
	for _, e := range m.Errors {
		p.Errors = append(p.Errors, api.Fault{Location: e.Location, Message: e.Message})
		details = append(details, e.Location+": "+e.Message)
	}
	if len(details) > 0 {
		p.Detail = oneLine(strings.Join(details, "; "))
	}
	return p
}
