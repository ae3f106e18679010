package transport

import (
	"crypto/rand"
	"math/big"
	"time"
)

// jitter returns a random length of time from zero up to, and without, n, which is
// positive. Those who failed together wait for different lengths of time, so that they
// do not come back together.
type jitter func(n time.Duration) time.Duration

// around is a length of time from half of d to one and a half of it.
func (j jitter) around(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + j(d)
}

// after is d, or up to a tenth longer.
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
