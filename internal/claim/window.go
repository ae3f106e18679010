package claim

import (
	"time"

	"dibs/internal/clock"
)

// stopwatch measures the write window by both clocks of the machine: the monotonic clock stands
// still while the machine is suspended, and the wall clock may be set back.
type stopwatch struct {
	clocks func() clock.Instant
	start  clock.Instant
}

func (c *Claimer) startWatch() stopwatch { return stopwatch{c.clocks, c.clocks()} }

func (s stopwatch) elapsed() time.Duration { return s.clocks().Since(s.start) }
