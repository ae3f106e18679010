package daemon

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// watcher passes what the claimer, the mirror and the queues do to the broker, which is above them,
// and wakes the loops concerned.
type watcher struct{ *works }

var (
	_ claim.Watcher  = watcher{}
	_ mirror.Watcher = watcher{}
)

// Observe is called with each page that the protocol has read or written.
func (w watcher) Observe(r claim.Reading) {
	w.mirror.Observe(r)
	w.doubt.See(context.Background(), r.Task)
}

func (w watcher) Wrote(took time.Duration, err error) {
	w.metrics.Wrote(took, err)
	if err == nil { // else nobody knows whether and when it took effect
		w.overwrites.note(took)
	}
}

func (w watcher) Stored(c claim.Hold) {
	w.broker.Claimed(c)
	w.leases.Wake()
	if c.State == claim.Held && c.Requested > 0 {
		w.due.Wake()
	}
	if c.State == claim.Ended && c.Finish != nil && c.Finish.To != "" {
		w.offers.Wake()
	}
}

func (w watcher) Changed(ids ...task.ID) { w.broker.Changed(ids...) }

func (w watcher) Delivered() { w.broker.Delivered() }

func (w watcher) Synced(ctx context.Context, r mirror.Result) error {
	w.countSynced(r)
	return w.afterSync(ctx, r)
}

func (w watcher) Unsynced(ctx context.Context, again bool) { w.afterFailedSync(ctx, again) }

// kept is the claimer for claims that end with their process or connection. When one ends, the
// broker's waiters hear of its task.
type kept struct {
	*claim.Claimer
	works *works
}

func (k kept) Finish(ctx context.Context, id claim.ID, f claim.Finish) (claim.Hold, error) {
	c, err := k.Claimer.Finish(ctx, id, f)
	if err == nil {
		k.works.broker.Changed(c.Task.ID)
	}
	return c, err
}
