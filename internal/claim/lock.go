package claim

import (
	"context"
	"sync"

	"dibs/internal/task"
)

// taskLocks serialises what this process does to one task: an attempt, a
// renewal and a completion of the same task never interleave.
type taskLocks struct {
	mu    sync.Mutex
	locks map[task.ID]*taskLock
}

type taskLock struct {
	held  chan struct{} // holds one value while locked
	users int           // holders and waiters, guarded by taskLocks.mu
}

// lock waits for the lock of id, or for ctx to end.
func (l *taskLocks) lock(ctx context.Context, id task.ID) (unlock func(), err error) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = make(map[task.ID]*taskLock)
	}
	k := l.locks[id]
	if k == nil {
		k = &taskLock{held: make(chan struct{}, 1)}
		l.locks[id] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.locks, id)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
