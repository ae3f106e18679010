// Package runner runs a command for each task that it claims. It keeps the claim while the command
// runs, stops the command if the claim is lost, and reports the outcome of the task. No command
// outlives its claim, or the process that started it, by more than its patience. A task is given
// back only once nothing runs that its command started.
package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/kit/safefile"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

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

// later lists the tasks that commands gave back to be tried later. Each is passed over for a while,
// longer each time, so that a loop gets to the others.
type later struct {
	most  int // how often a task is tried; 0 for no limit
	tasks []postponed
	given []task.ID // given up
}

type postponed struct {
	id    task.ID
	times int
	due   time.Time
}

// mostLater limits the tasks passed over: as many as one request may name.
const mostLater = 1000

// add puts a task off. It returns how often that was, and when it is due again; or that it is given
// up, because it was tried often enough.
func (l *later) add(id task.ID) (times int, due api.Time, givenUp bool) {
	p := postponed{id: id}
	for i, known := range l.tasks {
		if known.id == id {
			p = known
			l.tasks = append(l.tasks[:i], l.tasks[i+1:]...)
			break
		}
	}
	p.due = time.Now().Add(min(longestPause, shortestPause<<min(p.times, 10)))
	p.times++
	if p.times == l.most {
		l.given = append(l.given, id)
		if len(l.given) > mostLater {
			l.given = l.given[1:]
		}
		return p.times, api.Time{}, true
	}
	l.tasks = append(l.tasks, p)
	if len(l.tasks)+len(l.given) > mostLater && len(l.tasks) > 0 {
		l.tasks = l.tasks[1:]
	}
	return p.times, api.Time{Time: p.due}, false
}

// pending returns the tasks still to be passed over, and the time until the first of them is due;
// zero if there is none.
func (l *later) pending() (ids []string, due time.Duration) {
	for _, id := range l.given {
		ids = append(ids, string(id))
	}
	for _, p := range l.tasks {
		left := time.Until(p.due)
		if left <= 0 {
			continue
		}
		ids = append(ids, string(p.id))
		if due == 0 || left < due {
			due = left
		}
	}
	return ids, due
}
