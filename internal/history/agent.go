package history

import (
	"slices"
	"time"

	"dibs/internal/claim"
)

// Agent is how an agent does.
type Agent struct {
	Name string
	// Seen is when it last asked for a task, renewed a claim, polled, or finished something.
	Seen time.Time
	// Done is how many tasks it completed, or handed in for review, of late.
	Done int
	// Median is how long it had the tasks that it completed; nil if it completed none.
	Median *time.Duration
}

// Asking says whose agents are looked for.
type Asking struct {
	// Since is when an agent must have been seen, and Limit how many there are at most: those
	// seen last.
	Since time.Time
	Limit int
	// Done and Median are of what was completed since.
	DoneSince, MedianSince time.Time
}

// Newest is how many of an agent's tasks a median is made of at most, the newest.
const Newest = 101

// Median is the middle of lengths of time, or the mean of the two in the middle; nil if
// there are none. It sorts them.
func Median(lengths []time.Duration) *time.Duration {
	n := len(lengths)
	if n == 0 {
		return nil
	}
	slices.Sort(lengths)
	return new((lengths[(n-1)/2] + lengths[n/2]) / 2)
}

// Alive reports whether a fact shows that its agent was there: it did something, or
// asked for it.
func Alive(e claim.Fact) bool {
	switch e.Kind {
	case claim.KindLost, claim.KindSwept, claim.KindConflict, claim.KindContested, claim.KindExpiring,
		claim.KindCleared, claim.KindWithdrawn, claim.KindUnreserved:
		return false
	}
	return e.Agent != ""
}
