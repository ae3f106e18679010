// Package history turns facts into statistics: how often things happened, in steps of time,
// and the numbers of each agent. It is pure; the journal stores the counts.
package history

import (
	"math"
	"strconv"
	"strings"
	"time"

	"dibs/internal/claim"
)

// Name is the name of a counter.
type Name string

// The counters, except those of refusals and waits.
const (
	Granted   Name = "granted"
	Completed Name = "completed" // or handed in for review
	Failed    Name = "failed"
	Lost      Name = "lost" // ended by somebody else, or taken over once it was stale
	Swept     Name = "swept"
	Requests  Name = "requests" // sent to Notion
	Tokens    Name = "tokens"   // used for claims
	Micros    Name = "micros"   // the same in money: millionths of a US dollar

	// Backlog and Held add up how many tasks were open and held at each look, and Looks counts
	// the looks.
	Backlog Name = "backlog"
	Held    Name = "held"
	Looks   Name = "looks"
)

const (
	denied = "denied/"
	waited = "waited/"
	worked = "worked/"
)

// Denied returns the counter of refusals with that code.
func Denied(code claim.Code) Name { return Name(denied + string(code)) }

// Code is the inverse of Denied.
func (n Name) Code() (code claim.Code, ok bool) {
	of, ok := strings.CutPrefix(string(n), denied)
	return claim.Code(of), ok
}

// Times of about the same length are counted together, in sizes: each is a fifth longer than the
// one before, beginning with the shortest.
const (
	shortest = 100 * time.Millisecond
	longer   = 1.2
)

// Waited returns the counter of grants of tasks that had waited for d.
func Waited(d time.Duration) Name { return sized(waited, d) }

// Worked returns the counter of completed tasks that their agent had for d.
func Worked(d time.Duration) Name { return sized(worked, d) }

func sized(kind string, d time.Duration) Name {
	size := 0
	if d > shortest {
		size = int(math.Ceil(math.Log(d.Seconds()/shortest.Seconds()) / math.Log(longer)))
	}
	return Name(kind + strconv.Itoa(size))
}

// size returns the size of the times in a counter of that kind.
func (n Name) size(kind string) (size int, ok bool) {
	of, ok := strings.CutPrefix(string(n), kind)
	if !ok {
		return 0, false
	}
	size, err := strconv.Atoi(of)
	return size, err == nil
}

// length returns the length of times of a size, to within a tenth.
func length(size int) time.Duration {
	if size == 0 {
		return 0
	}
	return time.Duration(float64(shortest) * math.Pow(longer, float64(size)-0.5)).Round(time.Millisecond)
}

// Of returns the counter for a fact; empty for none.
func Of(e claim.Fact) Name {
	switch e.Kind {
	case claim.KindGranted, claim.KindAccepted:
		return Granted
	case claim.KindCompleted, claim.KindReview:
		if e.By != "" { // a person's word, and no work
			return ""
		}
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

// Counts are the values of counters.
type Counts map[Name]int

// Mean returns how many there were of something that each look counted, on average; false if
// nobody looked.
func (c Counts) Mean(of Name) (float64, bool) {
	if c[Looks] == 0 {
		return 0, false
	}
	return float64(c[of]) / float64(c[Looks]), true
}

// Wait returns a quantile of the waits of granted tasks, to within a tenth: the length that a
// part of them, from 0 to 1, did not exceed. It returns false if there are none.
func (c Counts) Wait(part float64) (time.Duration, bool) { return c.quantile(waited, part) }

// Work is Wait for the time that agents had the tasks that they completed.
func (c Counts) Work(part float64) (time.Duration, bool) { return c.quantile(worked, part) }

func (c Counts) quantile(kind string, part float64) (time.Duration, bool) {
	sizes, total, longest := make(map[int]int), 0, 0
	for name, n := range c {
		if size, ok := name.size(kind); ok {
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
