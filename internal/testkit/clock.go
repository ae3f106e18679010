package testkit

import "time"

// Clock is a clock.Source with this machine's time, or that of a synctest bubble.
type Clock struct{}

func (Clock) Now() time.Time { return time.Now() }
