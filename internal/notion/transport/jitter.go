package transport

import "time"

// jitter returns a random duration of at least zero and less than n, which is positive. It
// spreads out the retries of callers that failed together.
type jitter func(n time.Duration) time.Duration

// around returns a duration between half of d and one and a half of it.
func (j jitter) around(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + j(d)
}

// after returns d, or up to a tenth more.
func (j jitter) after(d time.Duration) time.Duration { return d + j(d/10+1) }
