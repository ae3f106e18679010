package testkit

import "time"

// Clock is this machine's, or a bubble's: a clock.Source.
type Clock struct{}

// Now returns the time.
func (Clock) Now() time.Time { return time.Now() }
