package daemon

import (
	"context"
	"slices"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/journal"
	"dibs/internal/metrics"
	"dibs/internal/reserve"
)

// ledger is the journal in the terms of the protocol and the broker. It counts what is
// stored for the metrics, and calls stored when there may be log entries to deliver or
// events to tell.
type ledger struct {
	*journal.Journal
	metrics *metrics.Metrics
	tally   *tally
	stored  func()
}

func (l ledger) Save(ctx context.Context, c claim.Claim, events ...claim.Event) error {
	err := l.Journal.Save(ctx, c, events...)
	if err == nil {
		l.metrics.Saved(c, events...)
	}
	if len(events) > 0 || c.State == claim.Ended {
		l.stored()
	}
	return err
}

func (l ledger) Record(ctx context.Context, events ...claim.Event) error {
	if len(events) > 0 { // else it only shows that this daemon may still change the journal
		defer l.stored()
	}
	err := l.Journal.Record(ctx, events...)
	if err == nil {
		l.metrics.Recorded(events...)
	}
	return err
}

func (l ledger) StoreReservation(ctx context.Context, r reserve.Reservation, news ...reserve.Event) error {
	err := l.Journal.StoreReservation(ctx, r, news...)
	l.reserved(err, news...)
	return err
}

func (l ledger) EndReservations(ctx context.Context, ids []string, news ...reserve.Event) error {
	err := l.Journal.EndReservations(ctx, ids, news...)
	l.reserved(err, news...)
	return err
}

func (l ledger) SumReservations(ctx context.Context, e reserve.Event) error {
	defer l.stored()
	return l.Journal.SumReservations(ctx, e)
}

// reserved counts what was stored of reservations.
func (l ledger) reserved(err error, news ...reserve.Event) {
	for _, e := range news {
		if err == nil {
			l.metrics.Recorded(claim.Event{Kind: e.Kind})
		}
	}
	l.stored()
}

// Log returns the events that f chooses, oldest first: the newest ones, or, with f.After,
// the first ones after that.
func (l ledger) Log(ctx context.Context, f api.LogFilter) ([]claim.Event, error) {
	newest := f.After == ""
	events, err := l.Events(ctx, journal.EventFilter{
		After: f.After, Task: f.Task, Agent: f.Agent, Claim: f.Claim, Limit: f.Limit, Newest: newest,
	})
	if newest {
		slices.Reverse(events)
	}
	return events, err
}

// Feed returns the events that f selects, in the order of their ids.
func (l ledger) Feed(ctx context.Context, f broker.FeedFilter) ([]feed.Event, error) {
	return l.Journal.Feed(ctx, journal.FeedFilter{After: f.After, Agent: f.Agent, Task: f.Task, Claim: f.Claim, Limit: f.Limit})
}
