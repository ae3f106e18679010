package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"dibs/internal/claim/sim"
)

// Profile describes how long a request takes, from sending it to the end of its answer: a
// log-normal distribution above Min, through Median and P99, cut off at Max. The request takes
// effect at a uniformly random time within.
type Profile struct {
	Min, Median, P99, Max time.Duration
}

// DefaultProfile is a guess for an API across the Internet. It was not measured.
func DefaultProfile() Profile {
	p, err := ParseProfile("p50=180ms,p99=900ms")
	if err != nil {
		panic(err)
	}
	return p
}

// ParseProfile parses a profile such as "p50=180ms,p99=900ms" or
// "min=90ms,median=180ms,p99=900ms,tail=5s". By default the minimum is half the median and the
// maximum five times the 99th percentile.
func ParseProfile(s string) (Profile, error) {
	var p Profile
	fields := map[string]*time.Duration{
		"min": &p.Min, "p50": &p.Median, "median": &p.Median, "p99": &p.P99, "max": &p.Max, "tail": &p.Max,
	}
	given := make(map[*time.Duration]bool)
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		field := fields[name]
		if field == nil {
			return Profile{}, fmt.Errorf("latency %q: want p50 (or median) and p99, and if you like min and max (or tail), as in p50=180ms,p99=900ms", part)
		}
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return Profile{}, fmt.Errorf("latency %q: %q is not a length of time", part, value)
		case given[field]:
			return Profile{}, fmt.Errorf("latency %q: given twice", part)
		}
		*field, given[field] = d, true
	}
	if !given[&p.Median] || !given[&p.P99] {
		return Profile{}, fmt.Errorf("latency %q: p50 and p99 are required", s)
	}
	if !given[&p.Min] {
		p.Min = p.Median / 2
	}
	if !given[&p.Max] {
		p.Max = 5 * p.P99
	}
	return p, p.Validate()
}

// Validate returns an error if no distribution has the profile.
func (p Profile) Validate() error {
	if p.Min < 0 || p.Min >= p.Median || p.Median > p.P99 || p.P99 > p.Max {
		return fmt.Errorf("latency %v: want 0 ≤ min < p50 ≤ p99 ≤ max", p)
	}
	return nil
}

func (p Profile) String() string {
	return fmt.Sprintf("min=%v,p50=%v,p99=%v,max=%v", p.Min, p.Median, p.P99, p.Max)
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// draw returns a random duration of a request.
func (p Profile) draw(r *rand.Rand) time.Duration {
	above := float64(p.Median - p.Min)
	sigma := math.Log(float64(p.P99-p.Min)/above) / z99
	return min(p.Max, p.Min+time.Duration(above*math.Exp(sigma*r.NormFloat64())))
}

// delay returns a random delay of a request. Its answer is dated when it took effect.
func (p Profile) delay(r *rand.Rand) sim.Delay {
	whole := p.draw(r)
	before := time.Duration(r.Float64() * float64(whole))
	return sim.Delay{Before: before, After: whole - before}
}
