package backoff_test

import (
	"math"
	"testing"
	"time"

	"dibs/internal/kit/backoff"
)

func TestBackoff(t *testing.T) {
	b := backoff.Backoff{First: 15 * time.Second, Longest: 10 * time.Minute}
	for n, want := range map[int]time.Duration{
		-3: b.First, 0: b.First, 1: b.First, 2: 30 * time.Second, 3: time.Minute, 6: 8 * time.Minute, 7: b.Longest, math.MaxInt: b.Longest,
	} {
		if got := b.After(n); got != want {
			t.Errorf("after %d failures it waits %v, want %v", n, got, want)
		}
	}
	for began, want := range map[time.Duration]time.Duration{
		0: b.First, time.Minute: time.Minute, -time.Minute: time.Minute, time.Hour: b.Longest, math.MinInt64: b.Longest,
	} {
		if got := b.Since(began); got != want {
			t.Errorf("in a row that began %v ago it waits %v, want %v", began, got, want)
		}
	}
}
