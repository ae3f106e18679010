package daemon

import (
	"context"
	"slices"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/daemon/metrics"
	"dibs/internal/journal"
	"dibs/internal/reserve"
)

// ledger is the journal as the protocol and the broker see it. It counts what is stored for the
// metrics, and calls stored when there may be log entries to deliver or facts to publish.
type ledger struct {
	*journal.Journal
	metrics *metrics.Metrics
	stored  func()
}

func (l ledger) Save(ctx context.Context, ch claim.Change) error {
	err := l.Journal.Save(ctx, ch)
	if err == nil {
		l.metrics.Saved(ch)
	}
	ended := func(h claim.Hold) bool { return h.State == claim.Ended }
	if len(ch.Facts) > 0 || slices.ContainsFunc(ch.Holds, ended) || len(ch.Marks) > 0 {
		l.stored()
	}
	return err
}

// Record is Save for facts alone.
func (l ledger) Record(ctx context.Context, facts ...claim.Fact) error {
	return l.Save(ctx, claim.Change{Facts: facts})
}

func (l ledger) StoreReservation(ctx context.Context, r reserve.Reservation, news ...claim.Fact) error {
	err := l.Journal.StoreReservation(ctx, r, news...)
	l.reservationsStored(err, news)
	return err
}

func (l ledger) EndReservations(ctx context.Context, ids []string, news ...claim.Fact) error {
	err := l.Journal.EndReservations(ctx, ids, news...)
	l.reservationsStored(err, news)
	return err
}

func (l ledger) ChangeBrake(ctx context.Context, change func(*brake.State) (claim.Fact, bool)) (brake.State, bool, error) {
	b, done, err := l.Journal.ChangeBrake(ctx, change)
	if done {
		l.stored()
	}
	return b, done, err
}

// reservationsStored counts the facts of a reservation.
func (l ledger) reservationsStored(err error, news []claim.Fact) {
	if err == nil {
		l.metrics.Recorded(news...)
	}
	l.stored()
}

// Log returns the facts that f selects, oldest first: the newest of them, or, with f.After, the
// first ones after that.
func (l ledger) Log(ctx context.Context, f api.LogFilter) ([]claim.Fact, error) {
	newest := f.After == ""
	facts, err := l.Facts(ctx, journal.FactFilter{
		After: f.After, Since: f.Since, Task: f.Task, Agent: f.Agent, Claim: f.Claim, Seen: f.Seen, Limit: f.Limit, Newest: newest,
	})
	if newest {
		slices.Reverse(facts)
	}
	return facts, err
}

// Feed returns the facts that f selects, in the order of their numbers.
func (l ledger) Feed(ctx context.Context, f broker.FeedFilter) ([]claim.Fact, error) {
	return l.Journal.Feed(ctx, journal.FeedFilter{After: f.After, Agent: f.Agent, Task: f.Task, Limit: f.Limit})
}
