package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/inbox"
)

// Memory caches the journal's last answers, for questions asked while its database cannot be
// reached. It is safe for concurrent use.
type Memory[K comparable, V any] struct {
	mu   sync.Mutex
	said map[K]said[V]
}

// said is an answer and its time.
type said[V any] struct {
	answer V
	at     time.Time
}

// memories limits the answers of one Memory: the names of agents are unbounded.
const memories = 1000

// Ask asks the journal. If the journal cannot be reached and ctx is one of Recall, it returns the
// last answer to the same question, if there is one.
func (m *Memory[K, V]) Ask(ctx context.Context, key K, ask func() (V, error)) (V, error) {
	asked := time.Now()
	answer, err := ask()
	if err == nil {
		m.keep(key, said[V]{answer, asked})
		return answer, nil
	}
	if last, ok := m.recall(ctx, key, err); ok {
		return last, nil
	}
	return answer, err
}

func (m *Memory[K, V]) keep(key K, s said[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.said == nil || len(m.said) >= memories {
		m.said = make(map[K]said[V])
	}
	m.said[key] = s
}

// recall returns the last answer if err says that the journal cannot be reached, and ctx allows an
// old answer.
func (m *Memory[K, V]) recall(ctx context.Context, key K, err error) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.said[key]
	recalled := recalling(ctx)
	if recalled == nil || !known || !unreachable(err) {
		return *new(V), false
	}
	recalled.Since(last.at)
	return last.answer, true
}

// unreachable reports whether err says that the journal cannot be reached.
func unreachable(err error) bool {
	_, is := errors.AsType[*claim.JournalError](err)
	return is
}

// Recalled collects the age of an answer that was made from memory. It is safe for concurrent use.
type Recalled struct {
	mu    sync.Mutex
	since time.Time
}

// Since records that a part of the answer was true at that time of this machine's clock.
func (r *Recalled) Since(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || at.Before(r.since) {
		r.since = at
	}
}

// At returns the time of the oldest part; zero if nothing is from memory.
func (r *Recalled) At() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// remembers is the broker's memory of the journal.
type remembers struct {
	offers  Memory[struct{}, []inbox.Offer]
	bounds  Memory[struct{}, feedBounds]
	agents  Memory[struct{}, []history.Agent] // of rememberedDays
	waiting Memory[string, inbox.Waiting]     // by agent
	losses  Memory[string, []claim.Loss]      // by agent
	brake   Memory[struct{}, claim.Brake]
}

// feedBounds is as in Feed.
type feedBounds struct{ last, pruned int64 }

func (b *Broker) offers(ctx context.Context) ([]inbox.Offer, error) {
	return b.remembers.offers.Ask(ctx, struct{}{}, func() ([]inbox.Offer, error) { return b.inbox.Inbox.Offers(ctx) })
}

func (b *Broker) feedBounds(ctx context.Context) (feedBounds, error) {
	return b.remembers.bounds.Ask(ctx, struct{}{}, func() (f feedBounds, err error) {
		f.last, f.pruned, err = b.feed.FeedBounds(ctx)
		return f, err
	})
}

func (b *Broker) losses(ctx context.Context, agent string) ([]claim.Loss, error) {
	return b.remembers.losses.Ask(ctx, agent, func() ([]claim.Loss, error) { return b.journal.Losses(ctx, agent) })
}

// rememberedDays is how many days back agents are remembered: the most that anybody may ask for.
const rememberedDays = 30

// pastAgents returns the agents that asking selects, if need be from memory.
func (b *Broker) pastAgents(ctx context.Context, asking history.Asking, days int) ([]history.Agent, error) {
	ask := func() ([]history.Agent, error) { return b.past.Agents(ctx, asking) }
	if days == rememberedDays {
		return b.remembers.agents.Ask(ctx, struct{}{}, ask)
	}
	agents, err := ask()
	if all, ok := b.remembers.agents.recall(ctx, struct{}{}, err); ok {
		unseen := func(a history.Agent) bool { return a.Seen.Before(asking.Since) }
		return slices.DeleteFunc(slices.Clone(all), unseen), nil
	}
	return agents, err
}

type recallKey struct{}

// Recall returns a context for a question that may be answered from memory while the journal cannot
// be reached. Changes are never made from memory: they need the journal anyway.
func Recall(ctx context.Context) (context.Context, *Recalled) {
	r := new(Recalled)
	return context.WithValue(ctx, recallKey{}, r), r
}

// recalling returns the Recalled of a context from Recall; nil for any other.
func recalling(ctx context.Context) *Recalled {
	r, _ := ctx.Value(recallKey{}).(*Recalled)
	return r
}

// remembered is how many agents are remembered, the last seen first.
const remembered = 100

// Remember fills the memory, so that questions can be answered while the journal cannot be reached
// even if nobody asked them before.
func (b *Broker) Remember(ctx context.Context) error {
	_, err := b.offers(ctx)
	_, berr := b.feedBounds(ctx)
	_, perr := b.brake(ctx)
	known, aerr := b.Agents(ctx, rememberedDays)
	errs := []error{err, berr, perr, aerr}
	for _, a := range known.Agents[:min(remembered, len(known.Agents))] {
		_, err := b.losses(ctx, a.Agent)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
