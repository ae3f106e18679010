package runner

import (
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// News is something that people are told while Run works.
type News struct {
	Kind NewsKind
	// Claim is the claim that was granted; without one, Kind is Waiting or Idle.
	Claim api.Claim
	// Result says how the task ended; set for Ended.
	Result Result
	// Denied is why nothing can be claimed now; set for Waiting and Idle.
	Denied *api.Problem
}

// NewsKind says what happened.
type NewsKind int

const (
	Claimed NewsKind = iota + 1
	Ended            // the task's outcome was reported, or its claim was lost
	Waiting          // nothing is ready
	Idle             // nothing is ready any more, and the loop ends
)

// Result is what became of a task.
type Result struct {
	Task     api.TaskRef  `json:"task"`
	Claim    claim.ID     `json:"claim"`
	Agent    string       `json:"agent"`
	Outcome  claim.Ending `json:"outcome"`
	ExitCode int          `json:"exit_code"`
	Seconds  float64      `json:"seconds"`
	Text     string       `json:"text,omitempty"`    // the summary, or the reason
	Pending  bool         `json:"pending,omitempty"` // Notion has not been told yet
	// Again is when the task is tried again; zero if it is not, by this run.
	Again api.Time `json:"try_again_at,omitzero"`
	// Attempts is how often this run gave the task back; GivenUp says that it was the last time.
	Attempts int  `json:"attempts,omitempty"`
	GivenUp  bool `json:"given_up,omitempty"`
}

// Unstarted reports whether the task was given back because the command could not be started.
func (r Result) Unstarted() bool { return r.Outcome == claim.EndReleased && unstarted(r.ExitCode) }

// become notes what becomes of the job's task.
func (j *job) become(outcome claim.Ending, code int, text string) {
	j.result = Result{
		Task: j.claim.Task, Claim: j.claim.ID, Agent: j.claim.Agent, Outcome: outcome, ExitCode: code,
		Seconds: time.Since(j.began).Round(100 * time.Millisecond).Seconds(), Text: text,
	}
}
