package claim

import (
	"context"
	"time"
)

// stopwatch measures the write window. The monotonic clock stands still while a
// machine is suspended and the wall clock may be set back, so the larger of the
// two elapsed times counts.
type stopwatch time.Time

func startWatch() stopwatch { return stopwatch(time.Now()) }

func (s stopwatch) elapsed() time.Duration {
	start, now := time.Time(s), time.Now()
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}

// pause waits for d, or for ctx to end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
