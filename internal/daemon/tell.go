package daemon

import (
	"context"
	"time"

	"dibs/internal/task"
)

// tellBatch is how many tasks are told of in one transaction. Others who write
// to the journal, claims above all, get their turn in between.
const tellBatch = 200

// tellRetry is when to look again at tasks that the protocol was at work on.
const tellRetry = time.Second

// tellLoop tells agents what became of tasks, as soon as there may be something.
func (d *Daemon) tellLoop(ctx context.Context) {
	for {
		busy, err := d.tell(ctx)
		d.broker.Told() // also of what the protocol recorded, which is told already
		if err != nil && ctx.Err() == nil {
			d.log.Error("agents could not be told what happened", "error", err)
		}
		wait := time.Hour // what changes tasks wakes the loop
		if busy {
			wait = tellRetry
		}
		if !await(ctx, d.news, wait) {
			return
		}
	}
}

// tell tells of every task that changed since it was told of, except those that
// the protocol is at work on: busy says that there are such. The first time it
// tells nobody: what the whole board showed then had been there before.
func (d *Daemon) tell(ctx context.Context) (busy bool, err error) {
	if !d.mirror.Listed() {
		return false, nil // the mirror has yet to see the whole board
	}
	if !d.begun {
		if d.begun, err = d.journal.Begun(ctx); err != nil {
			return false, err
		}
	}
	for again := true; again; {
		again, busy = false, false
		for last := task.ID(""); ; {
			ids, err := d.journal.Untold(ctx, last, tellBatch)
			if err != nil {
				return busy, err
			}
			if len(ids) == 0 {
				break
			}
			last = ids[len(ids)-1]
			tell := func(idle []task.ID) error {
				busy = busy || len(idle) < len(ids)
				more, err := d.journal.Tell(ctx, d.notion.Now(), idle)
				again = again || more
				return err
			}
			if d.begun {
				err = d.claimer.Between(ids, tell)
			} else {
				err = tell(ids) // nobody is told
			}
			if err != nil {
				return busy, err
			}
		}
	}
	if !d.begun {
		err = d.journal.Begin(ctx)
		d.begun = err == nil
	}
	return busy, err
}

// warnLoop warns agents of leases that are about to end.
func (d *Daemon) warnLoop(ctx context.Context) {
	for {
		next, err := d.claimer.Warn(ctx)
		wait := time.Hour // claims and renewals wake the loop
		if err != nil && ctx.Err() == nil {
			d.log.Error("agents could not be warned that their leases end", "error", err)
			wait = d.interval()
		}
		if !next.IsZero() {
			wait = max(time.Second, min(wait, next.Sub(d.notion.Now())))
		}
		if !await(ctx, d.leases, wait) {
			return
		}
	}
}

// await waits until it is woken or the time is over, and reports whether ctx is
// still going.
func await(ctx context.Context, woken <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
