// Package runner runs a command for each task that it claims. It keeps the claim while the command
// runs, stops the command if the claim is lost, and reports the outcome of the task. No command
// outlives its claim, or the process that started it, by more than its patience. A task is given
// back only once nothing runs that its command started.
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
	"dibs/internal/kit/clock"
	"dibs/internal/kit/safefile"

	"github.com/oklog/ulid/v2"
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
	// with 0; empty for none.
	Check string
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
	Since  time.Time // when the first of them was claimed
}

func (e *FailingError) Error() string {
	return fmt.Sprintf("%d tasks failed in a row, and the loop ends: look at why", e.Tasks)
}

const (
	// again is the pause before a retry when the daemon cannot be reached.
	again = time.Second
	// insist limits the retries to report the outcome of a task.
	insist = time.Minute
	// shortestPause and longestPause are how long a task is passed over that is to be tried later:
	// at first, and at most.
	shortestPause = 5 * time.Second
	longestPause  = 5 * time.Minute
)

// Run claims tasks and runs the command. It returns the command's exit code. With Loop that is 0 if
// there was anything to do at all, TryLater if a task was given back Attempts times, and still the
// command's if it could not be started. The error is that of the claim if none was granted, or of
// Count, wraps ErrLost, or says that the outcome could not be reported to the daemon.
//
// When ctx ends, nothing more is claimed. A running command gets the signals that this process got.
// It then has Patience to end; a second signal kills it.
func Run(ctx context.Context, o Options) (code int, err error) {
	safefile.RemoveAbandoned(filePrefix, fileSuffix)
	remote := false // the daemon is on another machine, and cannot see processes of this one
	put := later{most: o.Attempts}
	for done := 0; ; done++ {
		supervisor, err := o.newSupervisor()
		if err != nil {
			return 0, fmt.Errorf("the process that watches over the command could not be started: %w", err)
		}
		if !remote {
			o.Claim.PID = supervisor.cmd.Process.Pid
		}
		cl, err := o.claim(ctx, &put)
		remote = o.Claim.PID == 0
		if err != nil {
			supervisor.dismiss()
		}
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Code(claim.CodeNothingReady) && o.Loop && done > 0 {
			o.Tell(News{Kind: Idle, Denied: p})
			if len(put.given) > 0 {
				return TryLater, nil
			}
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		o.Tell(News{Kind: Claimed, Claim: cl})
		job := &job{Options: o, claim: cl, supervisor: supervisor}
		code, err := job.run(ctx)
		if code == TryLater && err == nil && o.Loop && !job.stopped {
			job.result.Attempts, job.result.Again, job.result.GivenUp = put.add(cl.Task.ID)
		}
		if job.result.Outcome != "" && (err == nil || errors.Is(err, ErrLost)) {
			o.Tell(News{Kind: Ended, Claim: cl, Result: job.result})
		}
		if !o.Loop {
			return code, err
		}
		end := End{Agent: cl.Agent, Claimed: cl.ClaimedAt.Time, Outcome: job.result.Outcome}
		if lost, ok := errors.AsType[*lostError](err); ok {
			end.Outcome = lost.as
		}
		enough := o.Count(end)
		switch {
		case job.stopped:
			return code, err
		case err != nil && !errors.Is(err, ErrLost):
			return code, err
		case err == nil && (ctx.Err() != nil || unstarted(code)):
			return code, nil
		case enough != nil:
			return 0, enough
		}
	}
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

// claim asks for a task. It passes over those that are to be tried later while others are ready. If
// it may wait for ever, it waits for a daemon, too. Before it waits it says what for.
func (o *Options) claim(ctx context.Context, later *later) (api.Claim, error) {
	// A daemon that goes away without an answer may have granted a claim: ask again under the same
	// key.
	patience := time.Duration(o.Claim.WaitSeconds * float64(time.Second))
	until := time.Now().Add(patience)
	first := time.Duration(0) // to learn what there is to wait for
	if o.Claim.Task != "" {
		first = patience
	}
	request, due, key := o.request(later, first)
	for said := false; ; {
		asked := time.Now()
		cl, err := o.Daemon.Claim(ctx, request, key)
		wait := again
		p, refused := errors.AsType[*api.Problem](err)
		_, away := errors.AsType[*client.UnreachableError](err)
		paused := refused && p.Code == api.Code(claim.CodePaused)
		nothing := paused || refused && p.Code == api.Code(claim.CodeNothingReady)
		if refused && p.Code == api.CodeOtherMachine && o.Claim.PID != 0 {
			o.Claim.PID = 0
			request, due, key = o.request(later, time.Duration(request.WaitSeconds*float64(time.Second)))
			continue
		}
		if o.Loop && (patience > 0 || paused) {
			patience := max(patience, askAgain)
			until = time.Now().Add(patience) // for ever
		}
		if left := time.Until(until); nothing && left > 0 && ctx.Err() == nil {
			o.Tell(News{Kind: Waiting, Denied: p})
			request, due, key = o.request(later, min(left, askAgain))
			continue
		}
		switch {
		case nothing && due > 0 && ctx.Err() == nil:
			if clock.Pause(ctx, due-time.Since(asked)) != nil {
				return api.Claim{}, context.Cause(ctx)
			}
			request, due, key = o.request(later, 0)
			continue
		case err == nil || !o.Loop || o.Claim.WaitSeconds == 0 || ctx.Err() != nil:
			return cl, err
		case refused && p.Code.Passes():
			wait = max(again, time.Duration(p.RetryAfter)*time.Second)
		case refused && (p.Code == api.CodeStopping || p.Code == api.CodeBusy), away:
		default:
			return cl, err
		}
		if wait > 0 && !said {
			o.Say("%v; trying again", err)
		}
		said = wait > 0
		if clock.Pause(ctx, wait) != nil {
			return api.Claim{}, context.Cause(ctx)
		}
	}
}

// askAgain is how long one request waits for a task: after that, what the others wait for may be
// something else.
const askAgain = time.Minute

// request returns the next request, which waits so long at most, and its key. due is the time until
// the first of the tasks that it passes over may be tried; zero if there is none.
func (o Options) request(later *later, wait time.Duration) (r api.ClaimRequest, due time.Duration, key string) {
	r = o.Claim
	if r.Except, due = later.pending(); due > 0 {
		wait = min(wait, due)
	}
	r.WaitSeconds = wait.Seconds()
	return r, due, "run " + ulid.Make().String()
}
