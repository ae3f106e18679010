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
	"dibs/internal/kit/backoff"
	"dibs/internal/kit/clock"
	"dibs/internal/kit/safefile"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
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
	l := loop{Options: o, put: later{most: o.Attempts}}
	for done := 0; ; done++ {
		j, err := l.next(ctx)
		if err != nil {
			return l.idle(err, done)
		}
		code, err := j.run(ctx)
		l.tell(j, code, err)
		if !o.Loop {
			return code, err
		}
		if over, code, err := l.over(ctx, j, code, err); over {
			return code, err
		}
	}
}

// loop is what goes on from task to task.
type loop struct {
	Options
	put    later
	remote bool // the daemon is on another machine, and cannot see processes of this one
}

// next claims a task, for a command that is yet to be started. The process that is to watch over the
// command keeps the claim alive from the start.
func (l *loop) next(ctx context.Context) (*job, error) {
	s, err := l.newSupervisor()
	if err != nil {
		return nil, fmt.Errorf("the process that watches over the command could not be started: %w", err)
	}
	if !l.remote && !l.Daemon.Remote() {
		l.Claim.PID = s.cmd.Process.Pid
	}
	cl, err := l.claim(ctx)
	if err != nil {
		s.dismiss()
		return nil, err
	}
	l.Tell(News{Kind: Claimed, Claim: cl})
	return &job{Options: l.Options, keeping: keeping{daemon: l.Daemon, claim: cl, remote: l.remote}, supervisor: s, check: newChecking()}, nil
}

// idle returns what Run returns if nothing was claimed, after so many tasks.
func (l *loop) idle(err error, done int) (code int, _ error) {
	p, refused := errors.AsType[*api.Problem](err)
	if !refused || p.Code != api.Code(claim.CodeNothingReady) || !l.Loop || done == 0 {
		return 0, err
	}
	l.Tell(News{Kind: Idle, Denied: p})
	if len(l.put.given) > 0 {
		return TryLater, nil
	}
	return 0, nil
}

// tell tells how a task ended. One that a loop is to try later is put off.
func (l *loop) tell(j *job, code int, err error) {
	if code == TryLater && err == nil && l.Loop && !j.stopped {
		j.result.Attempts, j.result.Again, j.result.GivenUp = l.put.add(j.claim.Task.ID)
	}
	if j.result.Outcome != "" && (err == nil || errors.Is(err, ErrLost)) {
		l.Tell(News{Kind: Ended, Claim: j.claim, Result: j.result})
	}
}

// over reports whether a loop ends with this task, and if so, what Run returns.
func (l *loop) over(ctx context.Context, j *job, code int, err error) (bool, int, error) {
	end := End{Agent: j.claim.Agent, Claimed: j.claim.ClaimedAt.Time, Outcome: j.result.Outcome}
	if lost, ok := errors.AsType[*lostError](err); ok {
		end.Outcome = lost.as
	}
	if j.unready && !j.stopped && err == nil {
		end.Outcome, end.Open = claim.EndFailed, true // whatever is wrong here is wrong for the next task, too
	}
	enough := l.Count(end)
	switch {
	case j.stopped, err != nil && !errors.Is(err, ErrLost):
		return true, code, err
	case err == nil && (ctx.Err() != nil || unstarted(code)):
		return true, code, nil
	}
	return enough != nil, 0, enough
}

// claim asks for a task. It passes over those that are to be tried later while others are ready. If
// it may wait for ever, it waits for a daemon, too. Before it waits it says what for.
func (l *loop) claim(ctx context.Context) (api.Claim, error) {
	// A daemon that goes away without an answer may have granted a claim: ask again under the same
	// key.
	patience := time.Duration(l.Claim.WaitSeconds * float64(time.Second))
	until := time.Now().Add(patience)
	first := time.Duration(0) // to learn what there is to wait for
	if l.Claim.Task != "" {
		first = patience
	}
	request, due, key := l.request(first)
	for warned := false; ; {
		asked := time.Now()
		cl, err := client.Do(ctx, l.Daemon, api.OpClaim, api.Keyed(key, request))
		p, refused := errors.AsType[*api.Problem](err)
		paused := refused && p.Code == api.Code(claim.CodePaused)
		nothing := paused || refused && p.Code == api.Code(claim.CodeNothingReady)
		if l.Loop && (patience > 0 || paused) {
			until = time.Now().Add(max(patience, askAgain)) // for ever
		}
		left := time.Until(until)
		switch {
		case refused && p.Code == api.CodeOtherMachine && l.Claim.PID != 0:
			l.remote, l.Claim.PID = true, 0
			request, due, key = l.request(time.Duration(request.WaitSeconds * float64(time.Second)))
			continue
		case nothing && left > 0 && ctx.Err() == nil:
			l.Tell(News{Kind: Waiting, Denied: p})
			request, due, key = l.request(min(left, askAgain))
			continue
		case nothing && due > 0 && ctx.Err() == nil:
			if clock.Pause(ctx, due-time.Since(asked)) != nil {
				return api.Claim{}, context.Cause(ctx)
			}
			request, due, key = l.request(0)
			continue
		}
		pause, passes := passing(err)
		if !passes || !l.Loop || l.Claim.WaitSeconds == 0 || ctx.Err() != nil {
			return cl, err
		}
		if !warned {
			l.Say("%v; trying again", err)
		}
		warned = true
		if clock.Pause(ctx, pause) != nil {
			return api.Claim{}, context.Cause(ctx)
		}
	}
}

// askAgain is how long one request waits for a task: after that, what the others wait for may be
// something else.
const askAgain = time.Minute

// passing returns the pause after which a request may be repeated that failed because the daemon, its
// journal or Notion cannot be reached for now; false for any other error, or for none.
func passing(err error) (pause time.Duration, passes bool) {
	p, refused := errors.AsType[*api.Problem](err)
	_, away := errors.AsType[*client.UnreachableError](err)
	switch {
	case refused && p.Code.Passes():
		return max(again, time.Duration(p.RetryAfter)*time.Second), true
	case refused:
		return again, p.Code == api.CodeStopping || p.Code == api.CodeBusy
	}
	return again, away
}

// request returns the next request, which waits so long at most, and its key. due is the time until
// the first of the tasks that it passes over may be tried; zero if there is none.
func (l *loop) request(wait time.Duration) (r api.ClaimRequest, due time.Duration, key string) {
	r = l.Claim
	if r.Except, due = l.put.pending(); due > 0 {
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

const (
	// shortestPause and longestPause are how long a task is passed over: at first, and at most.
	shortestPause = 5 * time.Second
	longestPause  = 5 * time.Minute
)

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
	p.times++
	p.due = time.Now().Add(backoff.Backoff{First: shortestPause, Longest: longestPause}.After(p.times))
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
