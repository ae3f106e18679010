// Package backoff says how long to wait after failures in a row. It keeps no state: the caller
// knows what failed, how often or since when, and what ends the row.
package backoff

import "time"

// Backoff is the wait after failures in a row. It doubles with each, from First to Longest.
type Backoff struct{ First, Longest time.Duration }

// After returns the wait after n failures in a row; fewer than one count as one.
func (b Backoff) After(n int) time.Duration {
	return min(b.First<<min(max(n-1, 0), 10), b.Longest)
}

// Since returns the wait after failures that are not counted, in a row that began so long ago: it
// is as long as the row, so it doubles, too. A row that begins in the future, by a clock that has
// been set since, counts as one that began as long ago.
func (b Backoff) Since(began time.Duration) time.Duration {
	return min(max(began.Abs(), b.First), b.Longest)
}
