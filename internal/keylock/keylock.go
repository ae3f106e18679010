// Package keylock locks by key: who works on the same thing waits for each other,
// who works on different things does not.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks, one for each key, that take up memory only while somebody uses
// them. The zero value is ready, and safe for concurrent use; it must not be copied.
// A lock is not reentrant.
type Locks[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*lock
}

type lock struct {
	held  chan struct{} // holds one value while locked
	users int           // holders and waiters, guarded by Locks.mu
}

// Lock waits for the lock of key, first come, first served. If ctx ends before, the
// error is its cause and nothing is locked. unlock is called once.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l.mu.Lock()
	k := l.locks[key]
	if k == nil {
		k = l.add(key)
	}
	k.users++
	l.mu.Unlock()

	select {
	case k.held <- struct{}{}:
		return func() { l.unlock(key, k) }, nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, context.Cause(ctx)
	}
}

// Try takes the lock of key, unless somebody has it or waits for it. unlock is nil
// if ok is false.
func (l *Locks[K]) Try(key K) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks[key] != nil {
		return nil, false
	}
	k := l.add(key)
	k.users++
	k.held <- struct{}{}
	return func() { l.unlock(key, k) }, true
}

// add makes the lock of key. l.mu is locked.
func (l *Locks[K]) add(key K) *lock {
	if l.locks == nil {
		l.locks = make(map[K]*lock)
	}
	k := &lock{held: make(chan struct{}, 1)}
	l.locks[key] = k
	return k
}

func (l *Locks[K]) unlock(key K, k *lock) {
	<-k.held
	l.leave(key, k)
}

func (l *Locks[K]) leave(key K, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.locks, key)
	}
}
