package broker

import (
	"errors"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// The daemon's own records bear Notion's time; its answers bear this machine's. The conversion is
// made here, and in the constructors beside the questions.

// time converts Notion's time to this machine's; zero stays zero.
func (b *Broker) time(t time.Time) api.Time { return api.Time{Time: b.Local(t)} }

// each translates a slice. It never returns nil, so that JSON says [].
func each[From, To any](from []From, translate func(From) To) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = translate(v)
	}
	return to
}

// orEmpty turns nil into an empty slice, so that JSON says [].
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (b *Broker) age(a api.Age) api.Age {
	a.SyncedAt = b.time(a.SyncedAt.Time)
	return a
}

func (b *Broker) claim(c claim.Hold) api.Claim {
	out := api.Claim{
		ID: c.ID, Task: b.ref(c.Task), Agent: c.Agent, State: c.State,
		ClaimedAt: b.time(c.ClaimedAt),
		Fence:     c.Fence, Usage: api.NewUsage(c.Used),
		Progress: c.Progress,
		Override: c.Former != "", Former: c.Former, Unheard: c.Finish != nil && c.Finish.Unheard,
		Outcome: c.Ending, EndedAt: b.time(c.Ended), Detail: c.Detail,
	}
	if !c.ClaimedAt.IsZero() {
		out.ExpiresAt, out.KeptUntil = b.time(c.ExpiresAt()), b.time(c.KeptUntil())
	}
	if said := c.Said(); said != nil {
		out.Summary, out.Evidence = said.Summary, said.Evidence
	}
	if c.State == claim.Finishing {
		if c.Finish != nil {
			out.Outcome = c.Finish.Ending()
		}
		if c.Taken() {
			out.Detail = c.Finish.Taking()
		}
		out.Owed = b.owed(c)
	}
	return out
}

// owed says what is uncertain about a claim while a write for it is still owed to Notion.
func (b *Broker) owed(c claim.Hold) api.Owed {
	if time.Now().Before(b.Local(c.ExpiresAt())) {
		return api.Owed{Pending: true, Unknown: "whether a person has taken the task, or another agent will once the lease is over"}
	}
	return api.Owed{Pending: true, Unknown: "whether another agent or a person has taken the task: the lease is over"}
}

// owedError says that a request was accepted, but Notion does not have it yet.
type owedError struct {
	claim claim.Hold
	error
}

// answer converts a claim for the caller. An *owedError counts as success: the claim then says what
// Notion is still owed.
func (b *Broker) answer(c claim.Hold, err error) (api.Claim, error) {
	if owed, ok := errors.AsType[*owedError](err); ok {
		out := b.claim(owed.claim)
		out.Detail, out.Owed = api.Saying(owed), b.owed(owed.claim)
		return out, nil
	}
	if err != nil {
		return api.Claim{}, err
	}
	return b.claim(c), nil
}
