package claim

import (
	"context"

	"dibs/internal/keylock"
	"dibs/internal/task"
)

// taskLocks serialise what this process does to one task: an attempt, a
// renewal and a completion of the same task never interleave.
type taskLocks struct{ keylock.Locks[task.ID] }

// lock waits for the lock of id, or for ctx to end.
func (l *taskLocks) lock(ctx context.Context, id task.ID) (unlock func(), err error) {
	return l.Lock(ctx, id)
}

// Between calls f with those of ids that no call of c is working on, and keeps all others off
// them until f returns. f must not call c.
func (c *Claimer) Between(ids []task.ID, f func(idle []task.ID) error) error {
	idle := make([]task.ID, 0, len(ids))
	for _, id := range ids {
		if unlock, ok := c.locks.Try(id); ok {
			defer unlock()
			idle = append(idle, id)
		}
	}
	return f(idle)
}
