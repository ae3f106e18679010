package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
)

// Range is a number that is drawn anew for each race.
type Range struct{ Least, Most int }

// ParseRange parses "4" or "2..8".
func ParseRange(s string) (Range, error) {
	least, most, two := strings.Cut(s, "..")
	if !two {
		most = least
	}
	var r Range
	var err1, err2 error
	r.Least, err1 = strconv.Atoi(least)
	r.Most, err2 = strconv.Atoi(most)
	if err1 != nil || err2 != nil {
		return Range{}, fmt.Errorf("%q: want a number, or two as in 2..8", s)
	}
	return r, nil
}

func (r Range) String() string {
	if r.Least == r.Most {
		return strconv.Itoa(r.Least)
	}
	return fmt.Sprintf("%d..%d", r.Least, r.Most)
}

// Limits of the claimers in a race.
const (
	minClaimers = 2
	maxClaimers = 8
)

// Options configures a simulation.
type Options struct {
	Seed  uint64
	Races int // for each row of the report
	// Claimers is the number of claimers in a race.
	Claimers Range
	// Spread is the time within which they start, each at a random time.
	Spread  time.Duration
	Latency Profile
	// Late is the share of claim writes, and of comments by hand, that land late.
	Late float64

	WriteWindow time.Duration
	// Settles are the settle waits to try with dibs.
	Settles []time.Duration

	// Workers is how many races run at a time; zero for one per processor.
	Workers int
}

// Validate returns an error if the options cannot be simulated.
func (o Options) Validate() error {
	switch {
	case o.Races < 1:
		return fmt.Errorf("%d races: want at least one", o.Races)
	case o.Claimers.Least < minClaimers || o.Claimers.Most > maxClaimers || o.Claimers.Least > o.Claimers.Most:
		return fmt.Errorf("%v claimers: want %d to %d", o.Claimers, minClaimers, maxClaimers)
	case o.Spread < 0:
		return fmt.Errorf("spread %v: must not be negative", o.Spread)
	case o.Late < 0 || o.Late > 1:
		return fmt.Errorf("late writes %v: want a share between 0 and 1", o.Late)
	case len(o.Settles) == 0:
		return fmt.Errorf("no settle wait to try")
	}
	for i, settle := range o.Settles {
		if i > 0 && settle <= o.Settles[i-1] {
			return fmt.Errorf("settle waits %v: want each longer than the one before", o.Settles)
		}
		if err := o.policy(settle).Validate(); err != nil {
			return err
		}
	}
	return o.Latency.Validate()
}

// policy returns the daemons' policy. A settle wait that does not exceed the window requires
// Exclusive, so that is set although there are other claimers. A settle wait of zero becomes a
// nanosecond, because otherwise a daemon would not read back its write.
func (o Options) policy(settle time.Duration) claim.Policy {
	if settle == 0 {
		settle = time.Nanosecond
	}
	p := sim.Policy()
	p.WriteWindow, p.Settle, p.Exclusive = o.WriteWindow, settle, settle <= o.WriteWindow
	return p
}

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
