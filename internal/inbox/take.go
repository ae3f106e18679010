package inbox

import "time"

// Take asks for the triggers of an agent.
type Take struct {
	Agent string
	// Taker is the poll that takes them. One that has some already, because it is repeated,
	// gets these and takes them anew.
	Taker string
	// Process is the process that polls, in a form of the caller's; empty for none.
	Process string
	Limit   int // how many at most, 0 for any number
	// Now is this machine's time, and At Notion's.
	Now, At time.Time
	// Visibility is how long what was taken may stay unacknowledged, and Gone are the
	// processes that have ended with what they took.
	Visibility time.Duration
	Gone       []string
	// Available is how many tasks the agent could claim.
	Available int
	// New, if set, is asked before an agent is taken up that has not polled before, or has been
	// forgotten since: its error is the answer then, and nothing is kept.
	New func() error
	// Finished has the agent told what is finished, from now on.
	Finished bool
}

// Waiting is what there is for an agent.
type Waiting struct {
	// Pending is whether there is a trigger to be taken, and Available whether there is
	// one that tells of available tasks.
	Pending, Available bool
	// Count is how many triggers there are to be taken, beside those of available tasks.
	Count int
	// Processes have taken triggers and not acknowledged them, and Oldest is when the
	// first of those that were taken, by anybody, was; zero if there is none.
	Processes []string
	Oldest    time.Time
}
