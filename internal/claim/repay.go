package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// onPage returns the length that the agent asked for as the page shows it.
func (b Borrowed) onPage() time.Duration {
	return (b.Asked + time.Minute - 1).Truncate(time.Minute)
}

// Repay puts back the lease lengths that older versions borrowed, once nobody has the task. mirror
// returns a task as it was last seen: Notion is asked only if nobody seems to have it. Repay goes on
// after an error and returns the errors joined.
func (c *Claimer) Repay(ctx context.Context, mirror func(task.ID) (task.Task, bool)) error {
	free := func(t task.Task) bool {
		return !t.Trashed && t.Status != task.InProgress && (t.Status != task.Open || !dated(t))
	}
	due := func(m Mark) bool {
		t, ok := mirror(m.Task.ID)
		return m.Why == Debt && m.State == Unseen && ok && free(t)
	}
	return c.eachMark(ctx, c.book.allMarks(), due, func(m Mark) error {
		v, err := c.visit(ctx, m.Task.ID, 0)
		if err != nil {
			return err
		}
		defer v.Close()
		if v.Task.Timeout == m.onPage() && m.Own != m.onPage() {
			if !free(v.Task) {
				return nil
			}
			if _, f, err := v.write(Write{Timeout: new(m.Own)}); f != seen {
				return err // it may be repeated
			}
		}
		return c.saveMark(ctx, m.gone(c.store.Now(), "claim_timeout_minutes was put back to what it was before the claim"))
	})
}
