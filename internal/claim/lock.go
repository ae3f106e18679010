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
	k := l.locks[id]
	if k == nil {
		k = l.add(id)
	}
	k.users++
	l.mu.Unlock()

	select {
	case k.held <- struct{}{}:
		return func() { l.unlock(id, k) }, nil
	case <-ctx.Done():
		l.leave(id, k)
		return nil, context.Cause(ctx)
	}
}

// try takes the lock of id, unless somebody has it or waits for it.
func (l *taskLocks) try(id task.ID) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks[id] != nil {
		return nil, false
	}
	k := l.add(id)
	k.users++
	k.held <- struct{}{}
	return func() { l.unlock(id, k) }, true
}

// add makes the lock of id. l.mu is locked.
func (l *taskLocks) add(id task.ID) *taskLock {
	if l.locks == nil {
		l.locks = make(map[task.ID]*taskLock)
	}
	k := &taskLock{held: make(chan struct{}, 1)}
	l.locks[id] = k
	return k
}

func (l *taskLocks) unlock(id task.ID, k *taskLock) {
	<-k.held
	l.leave(id, k)
}

func (l *taskLocks) leave(id task.ID, k *taskLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.locks, id)
	}
}

// Between calls f with those of ids that no call of c is at work on, and keeps
// all others off them until f returns. f must not call c.
func (c *Claimer) Between(ids []task.ID, f func(idle []task.ID) error) error {
	idle := make([]task.ID, 0, len(ids))
	for _, id := range ids {
		if unlock, ok := c.locks.try(id); ok {
			defer unlock()
			idle = append(idle, id)
		}
	}
	return f(idle)
}
