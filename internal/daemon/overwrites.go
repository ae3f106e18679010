package daemon

import (
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
)

// overwritesKept is how many claim writes are remembered.
const overwritesKept = 100

// overwrites remembers how long claim writes came after their reads: what a person edits
// in between is overwritten. It is safe for concurrent use.
type overwrites struct {
	mu   sync.Mutex
	took []time.Duration // the last ones, oldest first
}

// wrote takes note of a claim write that was answered, or failed with err, that long after
// its read was sent.
func (o *overwrites) wrote(took time.Duration, err error) {
	if err != nil {
		return // nobody knows when it took effect, if it did
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.took) == overwritesKept {
		o.took = o.took[1:]
	}
	o.took = append(o.took, took)
}

// report sums up what is remembered; nil if there was no claim write yet.
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
