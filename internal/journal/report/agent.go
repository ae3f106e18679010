package report

import (
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Agent has an agent's numbers.
type Agent struct {
	Name string
	// Seen is when it last asked for a task, renewed a claim, polled, or finished something.
	Seen time.Time
	// Done is how many tasks it completed, or handed in for review, since Asking.DoneSince.
	Done int
	// UsedToday is what it used since Asking.DoneSince, and Used since Asking.Since.
	UsedToday, Used claim.Usage
	// Median is the median time that it had the tasks that it completed; nil if there are none.
	Median *time.Duration
}

// Asking is a query for agents.
type Asking struct {
	// Since is when an agent must have been seen, and Limit the largest number of agents: those
	// seen last.
	Since time.Time
	Limit int
	// Done and Median count what was completed since these times.
	DoneSince, MedianSince time.Time
}

// Newest is how many of an agent's newest tasks count for its median.
const Newest = 101

// Median returns the median of lengths, the mean of the middle two if their number is even; nil
// if there are none. It sorts lengths.
func Median(lengths []time.Duration) *time.Duration {
	n := len(lengths)
	if n == 0 {
		return nil
	}
	slices.Sort(lengths)
	return new((lengths[(n-1)/2] + lengths[n/2]) / 2)
}

// Alive reports whether a fact shows that its agent was active: it did something, or asked
// for it.
func Alive(e claim.Fact) bool {
	switch e.Kind {
	case claim.KindLost, claim.KindSwept, claim.KindConflict, claim.KindContested, claim.KindExpiring,
		claim.KindCleared, claim.KindWithdrawn, claim.KindUnreserved, claim.KindPaused, claim.KindResumed:
		return false
	}
	return e.Agent != ""
}

// Quarter is how finely what was used is summed. In every time zone, days begin with a quarter of
// an hour.
const Quarter = 15 * time.Minute

// Begin returns the beginning of the quarter of an hour of t.
func Begin(t time.Time) time.Time {
	ms := t.UnixMilli()
	return time.UnixMilli(ms - ms%Quarter.Milliseconds()).UTC()
}

// Spending is a query for what was used. Its zero value asks for all.
type Spending struct {
	// Agent is a name, or a pattern for names; empty for anybody.
	Agent string
	Task  task.ID // empty for any
	// From and To limit when it was reported, in Notion's time, to a quarter of an hour: the
	// nearest one counts, as clocks differ. Zero is no limit.
	From, To time.Time
	// ByTask asks for what each agent used for each task.
	ByTask bool
}

// Spent is what an agent used, for one task with Spending.ByTask.
type Spent struct {
	Agent string
	Task  task.ID
	claim.Usage
}

// Total sums up what several agents used.
func Total(spent []Spent) (sum claim.Usage) {
	for _, s := range spent {
		sum = sum.Add(s.Usage)
	}
	return sum
}
