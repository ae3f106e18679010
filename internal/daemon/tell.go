package daemon

import (
	"context"
	"time"

	"dibs/internal/clock"
	"dibs/internal/task"
)

// tellBatch is how many tasks' news one transaction of the journal adds to the feed.
// Others who write to the journal, claims above all, get their turn in between.
const tellBatch = 200

// tellRetry is how long after tell passed over busy tasks it is called again.
const tellRetry = time.Second

// tellNews adds to the feed what became of tasks, whenever that may be something new.
func (d *works) tellNews(ctx context.Context) time.Duration {
	busy, err := d.tell(ctx)
	d.broker.Told() // the protocol may have added to the feed itself
	if err != nil && ctx.Err() == nil {
		d.log.Error("agents could not be told what happened", "error", err)
	}
	if busy {
		return tellRetry
	}
	return clock.UntilWoken // by whoever changes a task
}

// tell compares every task that has changed with what agents were told of it last, and
// adds the difference to the feed. It passes over tasks that the protocol is at work on,
// and returns busy if there are any. The very first time it only takes note of tasks: they
// were like that before the daemon came.
func (d *works) tell(ctx context.Context) (busy bool, err error) {
	if !d.mirror.Listed() {
		return false, nil // only with the whole board is it known what has changed
	}
	if !d.begun {
		if d.begun, err = d.journal.FeedBegun(ctx); err != nil {
			return false, err
		}
	}
	for again := true; again; {
		again, busy = false, false
		for last := task.ID(""); ; {
			ids, err := d.journal.Unpublished(ctx, last, tellBatch)
			if err != nil {
				return busy, err
			}
			if len(ids) == 0 {
				break
			}
			last = ids[len(ids)-1]
			tell := func(idle []task.ID) error {
				busy = busy || len(idle) < len(ids)
				more, err := d.journal.Publish(ctx, d.notion.Now(), idle)
				again = again || more
				return err
			}
			if d.begun {
				err = d.claimer.Between(ids, tell)
			} else {
				err = tell(ids) // this only takes note of them
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
	return d.tell(ctx) // of what became of tasks after they were taken note of
}

// warn warns agents whose leases are about to end.
func (d *works) warn(ctx context.Context) time.Duration {
	next, err := d.claimer.Warn(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Error("agents could not be warned that their leases end", "error", err)
		return d.left(next, d.interval())
	}
	return d.left(next, clock.UntilWoken) // by every claim and every renewal
}
