package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Sweep is the scheduled clean-up: it sets tasks back to OPEN whose holder went silent, so that a
// dead agent never keeps a task for good. It also tells the cards of tasks that can never become
// ready. It returns what it did, also with an error. The note, and the caller's user, are for the record.
func (b *Broker) Sweep(ctx context.Context, who Caller, in *api.KeyedInput[*api.SweepRequest]) (api.Sweep, error) {
	if err := b.mirror.Closed(); err != nil {
		return api.Sweep{}, err
	}
	b.alive.RunOnce(ctx) // after a standstill of the machine, leases are over whose agents live
	swept, err := sweep(ctx, noted{b.claimer, orZero(in.Body).Note, who.User}, silent(b.mirror.Tasks(), b.now(), b.claimer.Policy()), &b.troubles)
	for i := range swept {
		t, _ := b.mirror.Task(swept[i].Task)
		swept[i].Blocked = t.Status == task.Blocked
	}
	if len(swept) > 0 {
		b.Changed()
	}
	if err != nil && !claim.Asked(err) {
		return api.Sweep{Swept: orEmpty(swept)}, err
	}
	told, failed := b.tellStuck(ctx)
	return api.Sweep{Swept: orEmpty(swept), Told: told}, errors.Join(err, failed)
}

// silent returns the tasks that look stale at now: IN_PROGRESS with a lease that has ended. It
// judges by the mirror, so each has to be read again before it is touched.
func silent(tasks iter.Seq[task.Task], now time.Time, p claim.Policy) []task.Task {
	var out []task.Task
	for t := range tasks {
		if !t.Trashed && t.Status == task.InProgress && p.Stale(t, now) {
			out = append(out, t)
		}
	}
	return out
}

// sweeper reopens one task if its page still shows a stale claim.
type sweeper interface {
	Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error)
}

// noted is a sweeper that records its sweeps with a note and the user that asked for them.
type noted struct {
	*claim.Claimer
	note, by string
}

func (n noted) Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error) {
	return n.SweepFor(ctx, id, n.note, n.by)
}

// sweep reopens the tasks one by one, without those that are passed over. A failure does not stop
// it, unless it says that Notion cannot be reached, or there are so many that Notion must be the
// cause.
func sweep(ctx context.Context, c sweeper, tasks []task.Task, troubled *troubles) ([]api.Swept, error) {
	out := []api.Swept{}
	var errs []error
	failures := 0
	for _, t := range tasks {
		if troubled.passed(t.ID) {
			continue
		}
		former, swept, err := c.Sweep(ctx, t.ID)
		if err != nil {
			errs = append(errs, fmt.Errorf("task %q could not be swept: %w", t.Title, err))
		}
		if swept {
			out = append(out, api.Swept{Task: t.ID, Title: t.Title, Agent: former})
		}
		if err != nil {
			if failures++; !claim.Asked(err) || failures == maxTroubled {
				break
			}
			troubled.meet(t, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return out, errors.Join(errs...)
}
