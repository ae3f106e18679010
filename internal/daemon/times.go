package daemon

import (
	"slices"
	"sync"
	"time"
)

// timesKept is how many times are kept.
const timesKept = 100

// times keeps how long something took, the last times. It is safe for concurrent use.
type times struct {
	mu   sync.Mutex
	took []time.Duration // oldest first
}

// note records one more.
func (o *times) note(took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.took) == timesKept {
		o.took = o.took[1:]
	}
	o.took = append(o.took, took)
}

// sum returns the number of times kept, their median and their maximum; zeros for none.
func (o *times) sum() (n int, median, slowest time.Duration) {
	o.mu.Lock()
	sorted := slices.Sorted(slices.Values(o.took))
	o.mu.Unlock()
	if n = len(sorted); n == 0 {
		return 0, 0, 0
	}
	return n, sorted[n/2], sorted[n-1]
}
