package claim

import (
	"time"

	"dibs/internal/task"
)

// Request asks for one task.
type Request struct {
	// ID is the claim's id; empty to have one minted.
	ID    ID
	Agent string
	// Task is the task wanted. Only its ID is required.
	Task task.Task
	// Timeout is how long to keep the claim without hearing from the agent; zero for the lease.
	Timeout time.Duration
	// Keep keeps a granted claim even if the caller went away before the answer, because a
	// retry of its request can still ask for it.
	Keep bool
	// Quiet leaves the record to the caller if the attempt finds the task held by somebody
	// else, or not open any more. See PassedOver.
	Quiet bool
	// Unwanted, if set, returns in one line why the agent does not want the task that the page
	// shows; empty if it does. An unwanted task is neither written to nor recorded.
	Unwanted func(task.Task) string
	// Explain, if set, words a denial by what the page shows, before it is recorded: the caller may
	// know more of the tasks that this one waits for.
	Explain func(*Denied) *Denied
	// Limit is the most tasks that the agent may have at a time, 0 for any number; nil means
	// Policy.MaxPerAgent.
	Limit *int
	// Brief is set for a task that is claimed only to be given up at once, so that its page can
	// be written. That is no grant of work: no limit and no pause is for it.
	Brief bool
	// From is the agent that offered the task to Agent, until Until; empty if none did.
	From  string
	Until time.Time
	// Note goes on record if the claim is granted: who asked on behalf of the agent, for
	// example.
	Note string
}
