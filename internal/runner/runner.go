// Package runner runs a command for each task that it claims: it looks after the claim
// while the command runs, stops the command when the claim is lost, and says in the end
// what became of the task.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/ownfile"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Options say what to run, and for which tasks.
type Options struct {
	Daemon *client.Client
	// Claim is what is asked for; the process that keeps the claim alive is the guard.
	Claim api.ClaimRequest
	// Loop goes on with further tasks until none is ready or, if the request waits for
	// one, until the context ends.
	Loop bool
	// Command is what is run, and its arguments.
	Command []string
	// Patience is how long a command has to end when it is asked to, before SIGKILL.
	Patience time.Duration
	// Stdin, Stdout and Stderr are the command's. Of a file it gets the file itself.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env is the command's environment, to which that of its task is added.
	Env []string
	// Guard is a command that runs Guard, for this process's end, see there.
	Guard []string
	// Brief writes what the command is told of the task.
	Brief func(context.Context, io.Writer, api.Claim) error
	// Say tells people how things go.
	Say func(format string, args ...any)
}

// Codes that commands end with, beside 0.
const (
	// TryLater is that of a command that wants its task to be given back, EX_TEMPFAIL
	// of sysexits.h.
	TryLater = 75
	// Signalled is added to the number of the signal that a command died of.
	Signalled = 128
)

// ErrLost says that the claim was lost while the command ran.
var ErrLost = errors.New("the claim was lost")

const (
	// again is how long until a daemon that cannot be reached is asked again.
	again = time.Second
	// insist is for how long it is told what became of a task.
	insist = time.Minute
	// shortestPause and longestPause are for how long a task is passed over that is to be
	// tried later: the first time, and at most.
	shortestPause = 5 * time.Second
	longestPause  = 5 * time.Minute
)

// Run claims and runs. It returns the code that the command ended with; with Loop, 0 if
// there was anything to do at all. The error is that of the claim if none was granted,
// wraps ErrLost, or says that the daemon could not be told what became of the task.
//
// When ctx ends, nothing more is claimed. A command that runs by then is left to the
// signals that came, which it gets too. It has the time of Patience to end then, and a second
// signal kills it.
func Run(ctx context.Context, o Options) (code int, err error) {
	ownfile.RemoveAbandoned(filePrefix, fileSuffix)
	elsewhere := false // the daemon is on another machine, where no process of this one is known
	var put later
	for done := 0; ; done++ {
		guard, err := o.newGuard()
		if err != nil {
			return 0, fmt.Errorf("the process that watches over the command could not be started: %w", err)
		}
		if !elsewhere {
			o.Claim.PID = guard.cmd.Process.Pid
		}
		cl, err := o.claim(ctx, &put)
		elsewhere = o.Claim.PID == 0
		if err != nil {
			guard.dismiss()
		}
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Code(claim.CodeNothingReady) && o.Loop && done > 0 {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		job := &job{Options: o, claim: cl, guard: guard}
		code, err := job.run(ctx)
		switch {
		case !o.Loop || job.stopped:
			return code, err
		case errors.Is(err, ErrLost):
			o.Say("%v; going on with the next task", err)
		case err != nil:
			return code, err
		case ctx.Err() != nil:
			return code, nil
		}
		if code == TryLater {
			put.add(cl.Task.ID)
		}
	}
}

// claim asks for a task, and passes over those that are to be tried later while others
// are ready. One who wants to wait for ever waits for a daemon, too.
func (o *Options) claim(ctx context.Context, later *later) (api.Claim, error) {
	// A daemon that goes away without an answer may have granted a claim: it is asked
	// the same under the same key.
	request, due, key := o.request(later)
	for said := false; ; {
		asked := time.Now()
		cl, err := o.Daemon.Claim(ctx, request, key)
		wait := again
		p, refused := errors.AsType[*api.Problem](err)
		_, away := errors.AsType[*client.UnreachableError](err)
		if refused && p.Code == api.CodeOtherMachine && o.Claim.PID != 0 {
			o.Claim.PID = 0
			request, due, key = o.request(later)
			continue
		}
		switch {
		case refused && p.Code == api.Code(claim.CodeNothingReady) && due > 0 && ctx.Err() == nil:
			if clock.Pause(ctx, due-time.Since(asked)) != nil {
				return api.Claim{}, context.Cause(ctx)
			}
			request, due, key = o.request(later)
			continue
		case err == nil || !o.Loop || o.Claim.WaitSeconds == 0 || ctx.Err() != nil:
			return cl, err
		case refused && p.Code == api.Code(claim.CodeNothingReady):
			wait = 0
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

// request is what is asked for now, under a key of its own. due is when the first of the
// tasks that it passes over will do again; zero if it passes over none.
func (o Options) request(later *later) (r api.ClaimRequest, due time.Duration, key string) {
	r = o.Claim
	if r.Except, due = later.pending(); due > 0 {
		r.WaitSeconds = min(r.WaitSeconds, due.Seconds())
	}
	return r, due, "run " + ulid.Make().String()
}

// finish tells the daemon what became of the task, as the command's code says, and goes
// on trying while there is no daemon, or its journal cannot be used: asked again under its key,
// it does nothing twice. Once running has ended, which a signal does, it waits for no journal.
func (j *job) finish(running context.Context, code int, tail string) error {
	ctx, cancel := context.WithTimeout(context.Background(), insist)
	defer cancel()
	id, agent, took := string(j.claim.ID), j.claim.Agent, time.Since(j.began).Round(time.Second)
	key := "run " + id
	tell := func() (api.Claim, error) {
		switch {
		case j.stopped:
			return j.Daemon.Release(ctx, id, api.StopRequest{Agent: agent, Reason: fmt.Sprintf("%s was stopped", j.Command[0])}, key)
		case code == 0:
			return j.Daemon.Complete(ctx, id, api.CompleteRequest{Agent: agent, Summary: fmt.Sprintf("%s ended well after %s", j.Command[0], took)}, key)
		case code == TryLater:
			return j.Daemon.Release(ctx, id, api.StopRequest{Agent: agent, Reason: cmp.Or(tail, fmt.Sprintf("%s wants to be tried later", j.Command[0]))}, key)
		}
		return j.Daemon.Fail(ctx, id, api.FailRequest{Agent: agent, Reason: cmp.Or(tail, fmt.Sprintf("%s ended with %d", j.Command[0], code))}, key)
	}
	for said := false; ; {
		ended, err := tell()
		_, away := errors.AsType[*client.UnreachableError](err)
		p, refused := errors.AsType[*api.Problem](err)
		if refused && p.Code == api.CodeClaimLost {
			return fmt.Errorf("%w: %s", ErrLost, cmp.Or(p.Detail, p.Title))
		}
		wait := again
		waiting := ctx
		unsaved := refused && p.Code == api.Code(claim.CodeJournalUnavailable) && p.RetryAfter > 0 && !j.stopped && running.Err() == nil
		if unsaved {
			waiting, wait = running, max(again, time.Duration(p.RetryAfter)*time.Second)
		}
		if !away && !unsaved && !(refused && (p.Code == api.CodeStopping || p.Code == api.CodeBusy)) {
			if err == nil && ended.Pending {
				j.Say("%q: pending: Notion has not been told yet. It is not known %s", ended.Task.Title, task.OneLine(ended.Unknown, unicode.ReplacementChar))
			}
			return err
		}
		if !said {
			j.Say("%v; trying again for a minute", err)
			said = true
		}
		if clock.Pause(waiting, wait) != nil || ctx.Err() != nil {
			return err
		}
	}
}
