package server

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// Each user may make quotaBurst requests that are metered so (api.ByQuota) at once, and then
// one every quotaEvery. Notion takes three requests a second, for all users together.
//
// A message to all is stored for each agent, and counts once more for each maxBody of that. An
// agent's first poll counts as one, too: the agent is stored, and gets every later message to all
// (see poll).
const (
	quotaBurst = 200
	quotaEvery = 2 * time.Second
	// rowBytes is roughly the size of a message to one agent, without its text.
	rowBytes = 512
)

// purse is a user's quota.
type purse struct {
	of  *Server
	uid int
}

func (p purse) Charge() error { return tooMuch(p.of.quota.Take(p.uid, time.Now())) }

func (p purse) ChargeCopies(agents int, text string) error {
	return tooMuch(p.of.quota.TakeMore(p.uid, agents*(len(text)+rowBytes)/maxBody, time.Now()))
}

// charge counts one request. The error says that the user has asked for too much.
func (s *Server) charge(ctx context.Context) error { return purse{s, caller(ctx)}.Charge() }

func tooMuch(wait time.Duration) error {
	if wait > 0 {
		return overQuota(wait)
	}
	return nil
}

// overQuota refuses a request of a user who has asked for too much. It may be repeated under the
// same idempotency key.
func overQuota(wait time.Duration) *api.Problem {
	p := api.NewProblem(api.Code(claim.CodeLimitReached), "")
	p.Title = "The user has asked for too much at once"
	p.TooOften(wait)
	p.Detail = fmt.Sprintf("rate limit of this user: %d changes at once, then one every %v; nothing was done: try again in %ds",
		quotaBurst, quotaEvery, p.RetryAfter)
	return p
}
