package inbox

import "time"

// Take is a poll for the triggers of an agent.
type Take struct {
	Agent string
	// Taker identifies the poll. A poll that is repeated gets the triggers that it already has,
	// and their visibility timeout starts again.
	Taker string
	// Process is the process that polls, in the caller's form; empty if it is not known.
	Process string
	Limit   int // 0 for no limit
	// Now is this machine's time, and At Notion's.
	Now, At time.Time
	// Visibility is the visibility timeout: how long a taken trigger may stay unacknowledged
	// before it is delivered again. Gone are the processes that have ended: what they took is
	// delivered again at once.
	Visibility time.Duration
	Gone       []string
	// Available is how many tasks the agent could claim.
	Available int
	// New, if set, is called for an agent that has not polled before, or was forgotten since. If
	// it fails, the poll fails with its error and stores nothing.
	New func() error
	// Finished subscribes the agent to finished tasks.
	Finished bool
}

// Waiting describes an agent's inbox.
type Waiting struct {
	// Pending is set if there is a pending trigger other than for available tasks, and
	// Available if there is one for those.
	Pending, Available bool
	// Count is the number of pending triggers, without those for available tasks.
	Count int
	// Processes have taken triggers and not acknowledged them. Oldest is when the first
	// unacknowledged trigger was taken, by any poll; zero if there is none.
	Processes []string
	Oldest    time.Time
}
