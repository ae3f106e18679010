package ratelimit_test

import (
	"testing"
	"time"

	"dibs/internal/kit/ratelimit"
)

func TestAllowance(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := ratelimit.New(3, 2*time.Second)
	takes := func(uid int, want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if got := a.Take(uid, now); got != w {
				t.Errorf("user %d, %d: waits %v, want %v", uid, i, got, w)
			}
		}
	}
	takes(1, 0, 0, 0, 2*time.Second, 2*time.Second) // what is refused does not count
	takes(2, 0)                                     // another user's does not, either
	now = now.Add(1500 * time.Millisecond)
	takes(1, 500*time.Millisecond)
	now = now.Add(500 * time.Millisecond)
	takes(1, 0, 2*time.Second)
	now = now.Add(time.Hour)
	takes(1, 0, 0, 0, 2*time.Second)

	if got := a.Wait(3, now); got != 0 {
		t.Errorf("who did nothing waits %v", got)
	}
	for range 3 {
		a.Count(3, now)
	}
	if got := a.Wait(3, now); got != 2*time.Second {
		t.Errorf("after a burst: waits %v", got)
	}
}

func TestAllowanceOfMore(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := ratelimit.New(3, 2*time.Second)
	for _, more := range []int{1, 1, 6} { // 5 too many with the last
		if a.TakeMore(1, more, now) != 0 {
			t.Error("what is not too much was refused")
		}
	}
	if got := a.TakeMore(1, 1, now); got != 10*time.Second {
		t.Errorf("with more taken than may be: waits %v", got)
	}
	now = now.Add(12 * time.Second)
	if one, more, next := a.Take(1, now), a.TakeMore(1, 1, now), a.Take(1, now); one != 0 || more != 0 || next != 4*time.Second {
		t.Errorf("after the wait: %v, %v and then %v", one, more, next)
	}
}
