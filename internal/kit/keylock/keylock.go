// Package keylock has locks by key: callers with the same key wait for each other, callers with
// different keys do not. First come, first served. A lock takes memory only while it is in use.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of locks, one for each key. A lock takes up memory only while it is used.
// The zero value is ready to use. Locks is safe for concurrent use, and must not be copied.
// The locks are not reentrant.
type Locks[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*lock
}

type lock struct {
	held  chan struct{} // full while locked
	users int           // the holder and the waiters, guarded by Locks.mu
}

// Lock waits for the lock of key, first come, first served. If ctx ends first, nothing is
// locked, and the error is ctx's cause. unlock must be called once.
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

// Try locks key, unless somebody holds or awaits its lock. unlock is nil if ok is false.
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

// add adds the lock of key. l.mu is locked.
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
