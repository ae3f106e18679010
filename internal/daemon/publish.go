package daemon

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// publishBatch is how many tasks one transaction of the journal publishes. Other writers, claims
// above all, get their turn in between.
const publishBatch = 200

// publishRetry is the pause before busy tasks are tried again.
const publishRetry = time.Second

// publishNews adds what happened to tasks to the feed. Every change of a task wakes it.
func (d *works) publishNews(ctx context.Context) time.Duration {
	busy, err := d.publish(ctx)
	d.broker.Published() // even if nothing was published: the protocol adds to the feed, too
	if err != nil && ctx.Err() == nil {
		d.log.Error("agents could not be told what happened", claim.AttrError, err)
	}
	if busy {
		return publishRetry
	}
	return clock.UntilWoken // by a change of a task
}

// publish compares every changed task with its last published state and adds the difference to the
// feed. It skips tasks that the protocol is working on, and returns busy if there are any. The very
// first call only records the tasks' states: nothing before the daemon's first start is news.
func (d *works) publish(ctx context.Context) (busy bool, err error) {
	if !d.mirror.Listed() {
		return false, nil // changes are known only once the whole board was read
	}
	if !d.begun {
		if d.begun, err = d.journal.FeedBegun(ctx); err != nil {
			return false, err
		}
	}
	for again := true; again; {
		again, busy = false, false
		for last := task.ID(""); ; {
			ids, err := d.journal.Unpublished(ctx, last, publishBatch)
			if err != nil {
				return busy, err
			}
			if len(ids) == 0 {
				break
			}
			last = ids[len(ids)-1]
			publish := func(idle []task.ID) error {
				busy = busy || len(idle) < len(ids)
				more, err := d.journal.Publish(ctx, d.notion.Now(), idle)
				again = again || more
				return err
			}
			if d.begun {
				err = d.claimer.Between(ids, publish)
			} else {
				err = publish(ids) // this only records them
			}
			if err != nil {
				return busy, err
			}
		}
	}
	if d.begun {
		return busy, nil
	}
	if err := d.journal.BeginFeed(ctx); err != nil {
		return busy, err
	}
	return d.publish(ctx) // publishes what changed since they were recorded
}

// warn publishes warnings to agents whose leases are about to end.
func (d *works) warn(ctx context.Context) time.Duration {
	next, err := d.claimer.Warn(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Error("agents could not be warned that their leases end", claim.AttrError, err)
		return d.left(next, d.interval())
	}
	return d.left(next, clock.UntilWoken) // by a claim or a renewal
}
