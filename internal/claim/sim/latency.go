package sim

import (
	"math/rand/v2"
	"time"
)

// Delay is how long one call takes.
type Delay struct {
	// Before is the time from the sending to the instant of its effect.
	Before time.Duration
	// Dated is the time from there until the answer gets its Date.
	Dated time.Duration
	// After is the time from there until the answer arrives.
	After time.Duration
}

// Latency draws the delay of a call.
type Latency func(*rand.Rand) Delay

// Instant is the latency of a register that answers in no time.
func Instant(*rand.Rand) Delay { return Delay{} }

// Always makes every call take d.
func Always(d Delay) Latency {
	return func(*rand.Rand) Delay { return d }
}

// Uniform draws each part of a delay evenly from 0 to most, so a call takes at most three times
// most.
func Uniform(most time.Duration) Latency {
	return func(r *rand.Rand) Delay {
		return Delay{Before: UpTo(r, most), Dated: UpTo(r, most), After: UpTo(r, most)}
	}
}

// HeavyTail is usual for most calls. With the given probability, it draws one part of the delay
// evenly from 0 to slowest.
func HeavyTail(usual Latency, probability float64, slowest time.Duration) Latency {
	return func(r *rand.Rand) Delay {
		d := usual(r)
		if r.Float64() < probability {
			slow := UpTo(r, slowest)
			switch r.IntN(3) {
			case 0:
				d.Before = slow
			case 1:
				d.Dated = slow
			case 2:
				d.After = slow
			}
		}
		return d
	}
}

// UpTo draws a duration evenly from 0 to most.
func UpTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most) + 1))
}
