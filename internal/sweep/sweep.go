// Package sweep is the scheduled clean-up: it puts tasks whose holder has gone
// silent back to OPEN, so that a dead agent never keeps a task for good.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Plan returns the tasks that look as if their claim were stale at now: those
// IN_PROGRESS with a lease that has run out. It judges by the mirror, so each
// has to be read again before it is touched.
func Plan(tasks iter.Seq[task.Task], now time.Time, p claim.Policy) []task.Task {
	var out []task.Task
	for t := range tasks {
		if !t.Trashed && t.Status == task.InProgress && p.Stale(t, now) {
			out = append(out, t)
		}
	}
	return out
}

// Reopened is a task that a sweep put back to OPEN.
type Reopened struct {
	Task   task.Task
	Former string // who held it
}

// Claimer reopens one task if its page still shows a stale claim.
type Claimer interface {
	Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error)
}

// Run reopens the planned tasks, one by one. A task that cannot be swept does not
// keep the others from it, unless Notion is not to be reached.
func Run(ctx context.Context, c Claimer, plan []task.Task) ([]Reopened, error) {
	var out []Reopened
	var errs []error
	for _, t := range plan {
		former, swept, err := c.Sweep(ctx, t.ID)
		if err != nil {
			errs = append(errs, fmt.Errorf("task %q could not be swept: %w", t.Title, err))
		}
		if swept {
			out = append(out, Reopened{Task: t, Former: former})
		}
		var failed *claim.StoreError
		if ctx.Err() != nil || errors.As(err, &failed) && failed.Kind == claim.Unavailable {
			break
		}
	}
	return out, errors.Join(errs...)
}
