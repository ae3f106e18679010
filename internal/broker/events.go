package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// batch is how many events are read at a time.
const batch = 100

// FeedFilter selects events of the feed.
type FeedFilter struct {
	api.EventFilter     // After is never api.EventsFuture
	Limit           int // zero: all
}

// Feed is the ordered stream of facts that agents see. Their numbers increase.
type Feed interface {
	// Feed returns the facts that f selects, in the order of their numbers.
	Feed(ctx context.Context, f FeedFilter) ([]claim.Fact, error)
	// FeedBounds returns the number of the last fact, and of the last one that was pruned; 0 for
	// none.
	FeedBounds(ctx context.Context) (last, pruned int64, err error)
}

// ErrStopping: the daemon is stopping, so waiting ends.
var ErrStopping = errors.New("the daemon is stopping")

// Published wakes the calls that wait for events: the feed has a new one.
func (b *Broker) Published() {
	b.published.fire()
}

// Events returns the first events that f selects, in the order of their ids. If there is none, it
// waits up to wait for one. If f.After names an event that was pruned or never existed, the first
// event is an api.Gap, which says so. next is the id to continue after. The error is ErrStopping if
// the daemon stops meanwhile.
func (b *Broker) Events(ctx context.Context, f api.EventFilter, wait time.Duration) (events []api.Event, next int64, err error) {
	if wait > 0 && !f.Patient {
		defer b.mirror.Await()()
	}
	err = b.await(ctx, wait, func() (done bool, err error) {
		more, next, err := b.read(ctx, FeedFilter{EventFilter: f, Limit: batch})
		if err == nil {
			events, f.After = each(more, b.event), next
		}
		return len(more) > 0, err
	})
	return events, f.After, err
}

func (b *Broker) event(e claim.Fact) api.Event {
	out := api.Event{
		ID: e.Told, At: b.time(e.At), Kind: api.EventKind(e.Kind),
		Agent: e.Agent, By: e.By, Holder: e.Holder, Claim: e.Claim, Changed: e.Changed,
		ExpiresAt: b.time(e.Expires), Detail: api.Collapse(e.Detail), Summary: e.Summary,
		Reservation: e.Reservation, Patterns: e.Patterns, Shared: e.Shared,
	}
	if e.Task != "" {
		out.Task = new(b.ref(task.Task{ID: e.Task, Title: e.Title, URL: e.URL, Status: e.Status, Priority: e.Priority}))
	}
	return out
}

// journalRetry is how often a waiting call asks a journal that cannot be reached.
const journalRetry = time.Second

// await calls check until it is done: at once, after every new event, and once more when the wait
// is over. While the journal cannot be reached, it keeps waiting: nothing new can be stored there.
func (b *Broker) await(ctx context.Context, wait time.Duration, check func() (done bool, err error)) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	for last := wait <= 0; ; {
		more := b.published.next()
		done, err := check()
		var again <-chan time.Time
		if wait > 0 && unreachable(err) {
			err, again = nil, time.After(journalRetry)
		}
		if done || err != nil || last {
			return err
		}
		select {
		case <-more:
		case <-again:
		case <-over.C:
			last = true
		case <-b.closed:
			return ErrStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unreachable reports whether err says that the journal cannot be reached.
func unreachable(err error) bool {
	_, is := errors.AsType[*claim.JournalError](err)
	return is
}

// read returns the first events that f selects, and the id to continue after.
func (b *Broker) read(ctx context.Context, f FeedFilter) (events []claim.Fact, next int64, err error) {
	last, pruned, err := b.feed.FeedBounds(ctx)
	if err != nil || f.After == api.EventsFuture {
		return nil, last, err
	}
	if f.After > last || 0 < f.After && f.After < pruned {
		events = append(events, b.gap(f.After, last, pruned))
		f.After = pruned
	}
	more, err := b.feed.Feed(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	next = last
	if n := len(more); n > 0 && (n == f.Limit || more[n-1].Told > last) {
		next = more[n-1].Told
	}
	return append(events, more...), next, nil
}

// gap returns an event that says which events a reader has missed.
func (b *Broker) gap(after, last, pruned int64) claim.Fact {
	e := claim.Fact{Told: pruned, At: b.now(), Kind: api.Gap}
	if after > last {
		e.Detail = fmt.Sprintf("there is no event %d: the daemon's state was made anew; look at the tasks themselves", after)
	} else {
		e.Detail = fmt.Sprintf("events %d to %d are no longer kept; look at the tasks themselves", after+1, pruned)
	}
	return e
}

// Watch waits until a claim ends, or the feed has an event of it with an id above in.After, other than
// that it was claimed. It returns the claim with that event, or without one if the wait ended first. If
// the claim was taken from the agent, the answer counts as notice of the loss. A wait outlasts the
// journal's absence, and begins only while it is there. The error is one of Lookup's, or ErrStopping.
func (b *Broker) Watch(ctx context.Context, in *api.GetClaimInput) (api.Claim, error) {
	wait, err := time.ParseDuration(in.Wait)
	if err != nil || wait < 0 || wait > api.MaxWait {
		return api.Claim{}, api.Invalid("query.wait", fmt.Errorf("%q is not a time to wait: want one such as 60s, at most %v", in.Wait, api.MaxWait))
	}
	if err := b.journal.Away(); err != nil {
		return api.Claim{}, err
	}
	if !in.Patient && wait > 0 {
		defer b.mirror.Await()()
	}
	cl, event, err := b.watch(ctx, refTo(in.ID, in.Agent), in.After, wait)
	if err != nil {
		return api.Claim{}, err
	}
	out := b.claim(cl)
	if event != nil {
		out.Event = new(b.event(*event))
	}
	return out, nil
}

func (b *Broker) watch(ctx context.Context, r ref, after int64, wait time.Duration) (claim.Hold, *claim.Fact, error) {
	if after == api.EventsFuture {
		var err error
		if after, _, err = b.feed.FeedBounds(ctx); err != nil {
			return claim.Hold{}, nil, err
		}
	}
	cl, err := b.lookup(ctx, r)
	if err != nil {
		return claim.Hold{}, nil, err
	}
	var event *claim.Fact
	err = b.await(ctx, wait, func() (done bool, err error) {
		// A copy of the task's page shows the claim too, but is another task.
		news, err := b.feed.Feed(ctx, FeedFilter{EventFilter: api.EventFilter{After: after, Task: cl.Task.ID}})
		if err != nil {
			return false, err
		}
		if cl, err = b.claimer.Find(ctx, cl.ID); err != nil {
			return false, err
		}
		if cl.State == claim.Ended {
			event, err = b.lastOf(ctx, cl)
			return true, err
		}
		if i := slices.IndexFunc(news, func(e claim.Fact) bool { return e.Claim == cl.ID && e.Kind != claim.KindClaimed }); i >= 0 {
			event = &news[i]
		}
		return event != nil, nil
	})
	if err == nil {
		b.notifiedByAnswer(ctx, r.agent, cl)
	}
	return cl, event, err
}

// lastOf returns the event that best explains how a claim ended: the protocol's own, or else the
// claim's last event. It is nil if neither is kept any longer.
func (b *Broker) lastOf(ctx context.Context, cl claim.Hold) (*claim.Fact, error) {
	events, err := b.feed.Feed(ctx, FeedFilter{EventFilter: api.EventFilter{Task: cl.Task.ID}})
	var end *claim.Fact
	for i, e := range events {
		said := end != nil && (end.Kind == claim.KindLost || end.Kind == claim.KindSwept || end.Kind == claim.KindOverridden)
		if e.Claim == cl.ID && e.Kind != claim.KindClaimed && !said {
			end = &events[i]
		}
	}
	return end, err
}
