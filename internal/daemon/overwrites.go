package daemon

import (
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
)

// overwritesKept is how many claim writes are kept.
const overwritesKept = 100

// overwrites keeps the time between read and write of the last claims: an edit that a person makes
// in between is overwritten. It is safe for concurrent use.
type overwrites struct {
	mu   sync.Mutex
	took []time.Duration // the last ones, oldest first
}

// wrote records a claim write: the time from its read's sending to its answer, and its error.
func (o *overwrites) wrote(took time.Duration, err error) {
	if err != nil {
		return // nobody knows whether and when it took effect
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.took) == overwritesKept {
		o.took = o.took[1:]
	}
	o.took = append(o.took, took)
}

// report returns median and maximum; nil before the first claim write.
func (o *overwrites) report() *api.ReadToWrite {
	o.mu.Lock()
	sorted := slices.Sorted(slices.Values(o.took))
	o.mu.Unlock()
	if len(sorted) == 0 {
		return nil
	}
	return &api.ReadToWrite{
		Writes: len(sorted), MedianSeconds: sorted[len(sorted)/2].Seconds(), SlowestSeconds: sorted[len(sorted)-1].Seconds(),
	}
}
