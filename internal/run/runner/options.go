package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/run/worktree"
)

// Options configure what to run, and for which tasks.
type Options struct {
	Daemon *client.Client
	// Claim is the request for a task. The supervisor is the process that keeps the claim alive.
	Claim api.ClaimRequest
	// Loop continues with further tasks until none is ready or, if the request waits, until the
	// context ends.
	Loop bool
	// Command is the command with its arguments.
	Command []string
	// Patience is how long a command may take to end when asked, before SIGKILL.
	Patience time.Duration
	// Stdin is the command's. Stdout and Stderr get what it writes, see newOutput.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env is the command's environment; the variables of the task are added.
	Env []string
	// Supervisor is a command that calls Supervise.
	Supervisor []string
	// Brief writes the description of the task for the command.
	Brief func(context.Context, io.Writer, api.Claim) error
	// Attempts is how often the command may give a task back before a loop gives it up; 0 for no
	// limit.
	Attempts int
	// Count is told how each task of a loop ended, before another is claimed. Its error ends the loop.
	Count func(End) error
	// Check is a command of a shell that decides whether the task is done, once the command has ended
	// with 0; empty for no check.
	Check string
	// Trees is where each attempt gets a worktree to run in; nil for none. Setup and Publish are then
	// commands of a shell, run before the command and after the check; empty for none.
	Trees          *worktree.Repository
	Setup, Publish string
	// Progress makes the last line of the command's output the claim's progress.
	Progress bool
	// Tell is told what happens, as it happens.
	Tell func(News)
	// Say prints messages about trouble, for people.
	Say func(format string, args ...any)
}

// Exit codes of commands, beside 0.
const (
	// NoCommand and NotFound are a shell's codes for a command that it could not start.
	NoCommand, NotFound = 126, 127
	// TryLater asks to give the task back: EX_TEMPFAIL of sysexits.h.
	TryLater = 75
	// NotDone is the code of a command that ended with 0 although the task is not done.
	NotDone = 1
	// Signalled is added to the number of the signal that killed a command.
	Signalled = 128
)

// ErrLost says that the claim was lost while the command ran.
var ErrLost = errors.New("the claim was lost")

// End is how a task ended, as it counts for a row of failures.
type End struct {
	Agent   string
	Claimed time.Time
	Outcome claim.Ending // empty if that is not known
	Open    bool         // it counts as failed, and was given back
}

// Failures counts the tasks that failed in a row, of one loop or of several at once.
type Failures struct {
	Most int // after how many the loops end; 0 for never
	mu   sync.Mutex
	row  FailingError
	over bool
}

// FailingError says that loops ended because so many tasks in a row failed.
type FailingError struct {
	Agents []string // who failed them
	Tasks  int
	Open   int       // how many of them were given back
	Since  time.Time // when the first of them was claimed
}

func (e *FailingError) Error() string {
	return fmt.Sprintf("%d tasks failed in a row, and the loop ends: look at why", e.Tasks)
}

// Count takes in how a task ended. A claim that somebody else ended says nothing of the work. Once
// Most have failed in a row, only what still fails counts. Count is safe for concurrent use.
func (f *Failures) Count(end End) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch end.Outcome {
	case claim.EndFailed:
		if f.row.Tasks++; f.row.Tasks == 1 || end.Claimed.Before(f.row.Since) {
			f.row.Since = end.Claimed
		}
		if end.Open {
			f.row.Open++
		}
		if !slices.Contains(f.row.Agents, end.Agent) {
			f.row.Agents = append(f.row.Agents, end.Agent)
		}
		f.over = f.over || f.row.Tasks == f.Most
	case claim.EndCompleted, claim.EndReview, claim.EndReleased:
		if !f.over {
			f.row = FailingError{}
		}
	}
	return f.err()
}

// Err returns a *FailingError once Most tasks have failed in a row.
func (f *Failures) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err()
}

func (f *Failures) err() error {
	if !f.over {
		return nil
	}
	row := f.row
	return &row
}

// unstarted reports whether a command's exit code says that it could not be started.
func unstarted(code int) bool { return code == NoCommand || code == NotFound }

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
	Task      api.TaskRef  `json:"task"`
	Claim     claim.ID     `json:"claim"`
	Agent     string       `json:"agent"`
	Outcome   claim.Ending `json:"outcome"`
	ExitCode  int          `json:"exit_code"`
	Seconds   float64      `json:"seconds"`
	Text      string       `json:"text,omitempty"`      // the summary, or the reason
	Pending   bool         `json:"pending,omitempty"`   // Notion has not been told yet
	Branch    string       `json:"branch,omitempty"`    // of the attempt's worktree
	Published string       `json:"published,omitempty"` // the address that the publisher printed
	// Again is when the task is tried again; zero if it is not, by this run.
	Again api.Time `json:"try_again_at,omitzero"`
	// Attempts is how often this run gave the task back; GivenUp says that it was the last time.
	Attempts int  `json:"attempts,omitempty"`
	GivenUp  bool `json:"given_up,omitempty"`
}

// Unstarted reports whether the task was given back because the command could not be started.
func (r Result) Unstarted() bool { return r.Outcome == claim.EndReleased && unstarted(r.ExitCode) }
