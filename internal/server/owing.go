package server

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// Of what is Metered in the table of operations each user may ask for owingBurst at once, and then for one in
// owingEvery. Notion takes three requests a second, for all users together.
//
// A message to all is stored for each agent, and counts once more for each maxBody that this
// takes. An agent that polls for the first time is stored, too, and from then on told of what
// goes to all: it counts as one (see poll).
const (
	owingBurst = 200
	owingEvery = 2 * time.Second
	// rowBytes is about what a message takes for one agent, its text aside.
	rowBytes = 512
)

// owe counts what a request leaves. The error says that the user has asked for too much.
func (s *Server) owe(ctx context.Context) error {
	return tooMuch(s.owing.Take(caller(ctx), time.Now()))
}

// oweCopies counts what a message to that many agents leaves, beside what owe has counted.
func (s *Server) oweCopies(ctx context.Context, agents int, text string) error {
	return tooMuch(s.owing.TakeMore(caller(ctx), agents*(len(text)+rowBytes)/maxBody, time.Now()))
}

func tooMuch(wait time.Duration) error {
	if wait > 0 {
		return tooMuchOwed(wait)
	}
	return nil
}

// tooMuchOwed refuses a request of a user who has asked for too many. It may be asked for
// again under the same idempotency key.
func tooMuchOwed(wait time.Duration) *api.Problem {
	p := api.NewProblem(api.Code(claim.CodeLimitReached), "")
	p.Title = "The user has asked for too much at once"
	p.TooOften(wait)
	p.Detail = fmt.Sprintf("too many messages, comments, new tasks, offers, reopenings and new names that poll were asked for by this user, %d at once and then one every %v are taken, and nothing was done: go on in %ds",
		owingBurst, owingEvery, p.RetryAfter)
	return p
}
