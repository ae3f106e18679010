// Package allowance bounds how often each user of the machine may do something: so many
// times at once, and then once every so often.
package allowance

import (
	"sync"
	"time"
)

// Allowance counts what users do. It is safe for concurrent use. What it knows of a user is
// a moment, which it forgets once it is over.
type Allowance struct {
	burst int
	every time.Duration

	mu sync.Mutex
	// free has by user when nothing that was done counts any longer.
	free map[int]time.Time
}

// New returns an allowance of burst times at once, and then once in every.
func New(burst int, every time.Duration) *Allowance {
	return &Allowance{burst: burst, every: every, free: make(map[int]time.Time)}
}

// Wait is how long the user has to wait for the next time; zero if it need not.
func (a *Allowance) Wait(uid int, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wait(uid, 1, now)
}

// Count counts that the user does it now.
func (a *Allowance) Count(uid int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(uid, 1, now)
}

// Take counts that the user does it now, unless it has to wait, and returns for how long.
func (a *Allowance) Take(uid int, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.wait(uid, 1, now); wait == 0 {
		a.count(uid, 1, now)
	}
	return wait
}

// TakeMore counts that what was taken counts n times more, unless the user has taken too much
// otherwise meanwhile. It is never too much by itself: whoever takes it waits the longer
// afterwards.
func (a *Allowance) TakeMore(uid, n int, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.wait(uid, 0, now); wait == 0 {
		a.count(uid, n, now)
	}
	return wait
}

// wait is how long the user has to wait for n more.
func (a *Allowance) wait(uid, n int, now time.Time) time.Duration {
	return max(0, a.next(uid, n, now).Sub(now)-time.Duration(a.burst)*a.every)
}

// next is when nothing would count any longer, with n more.
func (a *Allowance) next(uid, n int, now time.Time) time.Time {
	free := a.free[uid]
	if free.Before(now) {
		free = now
	}
	return free.Add(time.Duration(n) * a.every)
}

func (a *Allowance) count(uid, n int, now time.Time) {
	a.free[uid] = a.next(uid, n, now)
	for other, at := range a.free {
		if at.Before(now) {
			delete(a.free, other)
		}
	}
}
