package config

import (
	"fmt"
	"time"
	_ "time/tzdata" // zones have to be known on machines without a zone database, too
)

// Breaker pauses all grants if many tasks in a row fail, are blocked or go stale.
type Breaker struct {
	Failures int           `key:"failures"` // that many; 0 is never
	Within   time.Duration `key:"within"`   // in that time
	Pause    time.Duration `key:"pause"`    // for that long
}

// Limits says how the limits of a day are counted.
type Limits struct {
	// Zone is the IANA name of the time zone whose midnight ends a day; empty is the machine's.
	Zone string `key:"zone"`
}

// Location returns the zone of the limits.
func (l Limits) Location() (*time.Location, error) {
	if l.Zone == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(l.Zone)
	if err != nil || l.Zone == "Local" {
		return nil, fmt.Errorf("limits.zone: %q is not a time zone: want a name such as Europe/Berlin or UTC", l.Zone)
	}
	return zone, nil
}

// countedFor is the least journal.keep with a limit of the day: grants are counted, and money is summed
// up, in the journal.
const countedFor = 48 * time.Hour

func (c Config) validateBrake() []error {
	var errs []error
	if _, err := c.Limits.Location(); err != nil {
		errs = append(errs, err)
	}
	for _, a := range c.Agents {
		if a.MaxPerDay > 0 && c.Journal.Keep < countedFor {
			errs = append(errs, fmt.Errorf("journal.keep: %v is too short to count what %q is granted in a day (max_per_day): want at least %v", c.Journal.Keep, a.Name, countedFor))
		}
		if a.MaxUSDPerDay > 0 && c.Journal.Keep < countedFor {
			errs = append(errs, fmt.Errorf("journal.keep: %v is too short to sum up what %q spends in a day (max_usd_per_day): want at least %v", c.Journal.Keep, a.Name, countedFor))
		}
	}
	if n := c.Claim.Breaker.Failures; n < 0 {
		errs = append(errs, fmt.Errorf("claim.breaker.failures: want 0 (never) or more, got %d", n))
	}
	return errs
}
