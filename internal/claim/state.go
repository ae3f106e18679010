package claim

// State is where a claim stands in its life; the diagram is in the package
// documentation.
type State string

// The states of a claim.
const (
	// Reserved: chosen here, nothing written to Notion yet.
	Reserved State = "reserved"
	// Writing: a claim write was or is about to be sent and is not verified.
	Writing State = "writing"
	// Held: granted to the agent.
	Held State = "held"
	// Finishing: the agent is done with the task; the write that says so is owed to Notion.
	Finishing State = "finishing"
	// Abandoned: given up, and to be withdrawn, because its write is on the page
	// or may be.
	Abandoned State = "abandoned"
	// Unseen: given up, and its write was not on the page. It may get there yet,
	// and is watched for.
	Unseen State = "unseen"
	// Voided: marked void on the page; taking it off the page is next.
	Voided State = "voided"
	// Clearing: the write that takes a voided claim off its page may have been sent.
	Clearing State = "clearing"
	// Ended: over; Ending says how.
	Ended State = "ended"
)

// Reserves reports whether a claim in this state keeps its task from the other
// agents of the daemon. One that was given up does not: what is left of it in
// Notion speaks for itself.
func (s State) Reserves() bool {
	return s == Reserved || s == Writing || s == Held || s == Finishing
}

// GivenUp reports whether a claim in this state is an attempt that was not granted, or
// the mark of a sweep, of which something is on its page or may still get there.
func (s State) GivenUp() bool {
	return s == Abandoned || s == Unseen || s == Voided || s == Clearing
}

// Ending is how a claim ended.
type Ending string

// The ways in which claims end.
const (
	EndNotGranted Ending = "not_granted" // denied, lost the race or withdrawn
	EndCompleted  Ending = "completed"
	EndFailed     Ending = "failed"
	EndBlocked    Ending = "blocked"
	EndReleased   Ending = "released"
	EndReview     Ending = "review"     // the work is done, and a person is to decide
	EndLost       Ending = "lost"       // taken, cleared or finished by somebody else
	EndOverridden Ending = "overridden" // stale, and taken over through this daemon
	EndSwept      Ending = "swept"      // stale, and reopened by this daemon's sweep
)
