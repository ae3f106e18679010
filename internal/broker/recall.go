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

// Memory holds what the journal said last, by what it was asked, for questions that come while
// its database is away. It is safe for concurrent use.
type Memory[K comparable, V any] struct {
	mu   sync.Mutex
	said map[K]said[V]
}

// said is an answer, and when it was true.
type said[V any] struct {
	answer V
	at     time.Time
}

// memories is how many answers a memory holds at most: names of agents may be any.
const memories = 1000

// Ask asks the journal. If that cannot answer, and ctx is one of Recall, it returns what it
// said last, if it was ever asked.
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

// recall returns what was said last, if err is that of a journal which cannot be asked, and an
// old answer will do.
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

// unreachable reports whether err is that of a journal which cannot be asked.
func unreachable(err error) bool {
	_, is := errors.AsType[*claim.JournalError](err)
	return is
}

// Recalled is how old the answer to a question is, as far as it was made from memory. It is
// safe for concurrent use.
type Recalled struct {
	mu    sync.Mutex
	since time.Time
}

// Since notes that a part of the answer was true then, by this machine's clock.
func (r *Recalled) Since(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || at.Before(r.since) {
		r.since = at
	}
}

// At returns when the oldest part was true; zero if nothing is from memory.
func (r *Recalled) At() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// remembers is what a broker has of the journal in memory.
type remembers struct {
	offers  Memory[struct{}, []inbox.Offer]
	bounds  Memory[struct{}, feedBounds]
	agents  Memory[struct{}, []history.Agent] // of rememberedDays
	waiting Memory[string, inbox.Waiting]     // by agent
	losses  Memory[string, []claim.Loss]      // by agent
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

// rememberedDays is how far back agents are remembered: as far as anybody may ask.
const rememberedDays = 30

// pastAgents returns the agents that asking selects.
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

// Recall returns a context for a question which may be answered from memory while the journal
// cannot be asked. What changes something never goes by memory: it needs the journal anyway.
func Recall(ctx context.Context) (context.Context, *Recalled) {
	r := new(Recalled)
	return context.WithValue(ctx, recallKey{}, r), r
}

// recalling returns what ctx has of Recall; nil for nothing.
func recalling(ctx context.Context) *Recalled {
	r, _ := ctx.Value(recallKey{}).(*Recalled)
	return r
}

// remembered is how many agents are remembered, the one last seen first.
const remembered = 100

// Remember asks what there is to be remembered, so that it can be told while the journal
// cannot be asked, whether or not somebody asked before.
func (b *Broker) Remember(ctx context.Context) error {
	_, err := b.offers(ctx)
	_, berr := b.feedBounds(ctx)
	known, aerr := b.Agents(ctx, rememberedDays)
	errs := []error{err, berr, aerr}
	for _, a := range known.Agents[:min(remembered, len(known.Agents))] {
		_, err := b.losses(ctx, a.Agent)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
