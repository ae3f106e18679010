package transport

import (
	"crypto/rand"
	"math/big"
	"time"
)

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

// random is a jitter. It draws from crypto/rand, which a test can give a seed, as it cannot
// math/rand/v2.
func random(n time.Duration) time.Duration {
	drawn, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		return n / 2 // crypto/rand never fails
	}
	return time.Duration(drawn.Int64())
}
