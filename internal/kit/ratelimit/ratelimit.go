// Package ratelimit limits how often each user of the machine may do something: a token bucket for
// each user. Refused requests do not count.
package ratelimit

import (
	"sync"
	"time"
)

// Allowance is a set of token buckets, one for each user. It is safe for concurrent use. It
// forgets a user once the bucket is full again.
type Allowance struct {
	burst int
	every time.Duration

	mu sync.Mutex
	// free has the time, by user, at which the bucket is full again.
	free map[int]time.Time
}

// New returns an Allowance with buckets of burst tokens, each refilled with one token every
// interval.
func New(burst int, interval time.Duration) *Allowance {
	return &Allowance{burst: burst, every: interval, free: make(map[int]time.Time)}
}

// Wait returns how long the user has to wait for a token; zero if there is one.
func (a *Allowance) Wait(uid int, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wait(uid, 1, now)
}

// Count takes a token, even if there is none.
func (a *Allowance) Count(uid int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(uid, 1, now)
}

// Take takes a token and returns zero; if there is none, it returns how long the user has to wait.
func (a *Allowance) Take(uid int, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.wait(uid, 1, now); wait == 0 {
		a.count(uid, 1, now)
	}
	return wait
}

// TakeMore takes n more tokens for something that turned out to cost more, after Take. It fails only
// if the user has overdrawn the bucket meanwhile; then it returns how long the user has to wait. n
// may overdraw the bucket: the user then waits longer afterwards.
func (a *Allowance) TakeMore(uid, n int, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.wait(uid, 0, now); wait == 0 {
		a.count(uid, n, now)
	}
	return wait
}

// wait returns how long the user has to wait for n tokens.
func (a *Allowance) wait(uid, n int, now time.Time) time.Duration {
	return max(0, a.next(uid, n, now).Sub(now)-time.Duration(a.burst)*a.every)
}

// next returns when the bucket would be full again, after n more tokens were taken.
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
