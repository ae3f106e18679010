// Package history is what the past is made into to be looked at: numbers of what
// happened, in steps of time, and how agents do. It is pure; the journal counts.
package history

import (
	"math"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
)

// Name is what is counted.
type Name string

// What is counted beside refusals and waiting.
const (
	Granted   Name = "granted"
	Completed Name = "completed" // or handed in for review
	Failed    Name = "failed"
	Lost      Name = "lost" // ended by somebody else, or taken over once it was stale
	Swept     Name = "swept"
	Requests  Name = "requests" // sent to Notion
)

const (
	denied = "denied/"
	waited = "waited/"
)

// Denied is the name of refusals with that code.
func Denied(code claim.Code) Name { return Name(denied + string(code)) }

// Code is what Denied was called with.
func (n Name) Code() (code claim.Code, ok bool) {
	of, ok := strings.CutPrefix(string(n), denied)
	return claim.Code(of), ok
}

// Waits of about the same length are counted together: each size is a fifth longer than
// the one before, from the shortest on.
const (
	shortest = 100 * time.Millisecond
	longer   = 1.2
)

// Waited is the name of grants of tasks that had waited so long.
func Waited(d time.Duration) Name {
	size := 0
	if d > shortest {
		size = int(math.Ceil(math.Log(d.Seconds()/shortest.Seconds()) / math.Log(longer)))
	}
	return Name(waited + strconv.Itoa(size))
}

// size is that of the waits that go by the name.
func (n Name) size() (size int, ok bool) {
	of, ok := strings.CutPrefix(string(n), waited)
	if !ok {
		return 0, false
	}
	size, err := strconv.Atoi(of)
	return size, err == nil
}

// length is how long waits of a size are, to within a tenth of it.
func length(size int) time.Duration {
	if size == 0 {
		return 0
	}
	return time.Duration(float64(shortest) * math.Pow(longer, float64(size)-0.5)).Round(time.Millisecond)
}

// Of is what a fact counts as; empty for nothing.
func Of(e claim.Fact) Name {
	switch e.Kind {
	case claim.KindGranted:
		return Granted
	case claim.KindCompleted, claim.KindReview:
		return Completed
	case claim.KindFailed:
		return Failed
	case claim.KindLost, claim.KindOverridden:
		return Lost
	case claim.KindSwept:
		return Swept
	case claim.KindDenied:
		return Denied(e.Code)
	}
	return ""
}

// Counts are how often each thing happened.
type Counts map[Name]int

// Wait is how long the tasks had waited that were granted: the length that so much of
// them, from 0 to 1, did not exceed, to within a tenth of it. It is false if there are none.
func (c Counts) Wait(part float64) (time.Duration, bool) {
	sizes, total, longest := make(map[int]int), 0, 0
	for name, n := range c {
		if size, ok := name.size(); ok {
			sizes[size] += n
			total += n
			longest = max(longest, size)
		}
	}
	if total == 0 {
		return 0, false
	}
	left := max(1, int(math.Ceil(part*float64(total))))
	for size := range longest {
		if left -= sizes[size]; left <= 0 {
			return length(size), true
		}
	}
	return length(longest), true
}
