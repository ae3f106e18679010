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

	"github.com/danielgtaylor/huma/v2"
)

// failure carries a problem through huma, which wants its contents from methods.
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

// problem converts an error for the caller.
func (s *Server) problem(ctx context.Context, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return cutOff(ctx)
	}
	if _, ok := errors.AsType[*claim.JournalError](err); ok {
		select {
		case <-s.journal.Over():
			return stopping()
		default:
		}
	}
	if p := s.broker.Problem(err); p != nil {
		return p
	}
	if errors.Is(err, errStopping) || errors.Is(err, broker.ErrStopping) || errors.Is(err, claim.ErrStopped) {
		return stopping()
	}
	s.log.Error("a request failed", claim.AttrError, err)
	return api.NewProblem(api.CodeInternal, api.Saying(err))
}

// cutOff is the answer to a request that was interrupted.
func cutOff(ctx context.Context) *api.Problem {
	if errors.Is(context.Cause(ctx), errStopping) {
		return stopping()
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return api.NewProblem(api.CodeInternal, "the caller went away") // which will not read this
}

func stopping() *api.Problem {
	p := api.NewProblem(api.CodeStopping, errStopping.Error())
	p.RetryIn(time.Second)
	return p
}

// ownProblems is a transformer that replaces huma's errors by our problems.
func ownProblems(_ huma.Context, _ string, value any) (any, error) {
	switch v := value.(type) {
	case failure:
		return v.Problem, nil
	case *huma.ErrorModel:
		return requestProblem(v), nil
	}
	return value, nil
}

// requestProblem converts huma's findings about a request.
func requestProblem(m *huma.ErrorModel) *api.Problem {
	p := api.NewProblem(api.CodeInvalidRequest, m.Detail)
	p.Status = m.Status // 400 if it is not JSON at all
	var details []string
	for _, e := range m.Errors {
		p.Errors = append(p.Errors, api.Fault{Location: e.Location, Message: e.Message})
		details = append(details, e.Location+": "+e.Message)
	}
	if len(details) > 0 {
		p.Detail = api.Collapse(strings.Join(details, "; "))
	}
	return p
}
