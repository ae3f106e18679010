package simulate

import (
	"fmt"
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
