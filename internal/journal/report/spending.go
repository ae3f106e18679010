package report

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

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
}

// Spent is what an agent used.
type Spent struct {
	Agent string
	claim.Usage
}

// Total sums up what several agents used.
func Total(spent []Spent) (sum claim.Usage) {
	for _, s := range spent {
		sum = sum.Add(s.Usage)
	}
	return sum
}
