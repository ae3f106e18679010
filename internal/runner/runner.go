// Package runner runs a command for each task that it claims. It keeps the claim while the command
// runs, stops the command if the claim is lost, and reports the outcome of the task.
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
	// Stdin, Stdout and Stderr are the command's. It gets a file itself, not a copy.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env is the command's environment; the variables of the task are added.
	Env []string
	// Supervisor is a command that calls Supervise.
	Supervisor []string
	// Brief writes the description of the task for the command.
	Brief func(context.Context, io.Writer, api.Claim) error
	// Say prints messages for people.
	Say func(format string, args ...any)
}

// Exit codes of commands, beside 0.
const (
	// TryLater asks to give the task back: EX_TEMPFAIL of sysexits.h.
	TryLater = 75
	// Signalled is added to the number of the signal that killed a command.
	Signalled = 128
)

// ErrLost says that the claim was lost while the command ran.
var ErrLost = errors.New("the claim was lost")

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

// Run claims tasks and runs the command. It returns the command's exit code; with Loop, 0 if there
// was anything to do at all. The error is that of the claim if none was granted, wraps ErrLost, or
// says that the outcome could not be reported to the daemon.
//
// When ctx ends, nothing more is claimed. A running command gets the signals that this process got.
// It then has Patience to end; a second signal kills it.
func Run(ctx context.Context, o Options) (code int, err error) {
	ownfile.RemoveAbandoned(filePrefix, fileSuffix)
	remote := false // the daemon is on another machine, and cannot see processes of this one
	var put later
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
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		job := &job{Options: o, claim: cl, supervisor: supervisor}
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

// claim asks for a task. It passes over those that are to be tried later while others are ready. If
// it may wait for ever, it waits for a daemon, too.
func (o *Options) claim(ctx context.Context, later *later) (api.Claim, error) {
	// A daemon that goes away without an answer may have granted a claim: ask again under the same
	// key.
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

// request returns the next request and its key. due is the time until the first of the tasks that
// it passes over may be tried; zero if it passes over none.
func (o Options) request(later *later) (r api.ClaimRequest, due time.Duration, key string) {
	r = o.Claim
	if r.Except, due = later.pending(); due > 0 {
		r.WaitSeconds = min(r.WaitSeconds, due.Seconds())
	}
	return r, due, "run " + ulid.Make().String()
}

// finish reports the outcome to the daemon, by the command's exit code. It retries while there is
// no daemon, or its journal cannot be used; the key keeps a repetition from acting twice. Once
// running has ended, as after a signal, it does not wait for a journal.
func (j *job) finish(running context.Context, code int, tail string) error {
	ctx, cancel := context.WithTimeout(context.Background(), insist)
	defer cancel()
	id, agent, took := string(j.claim.ID), j.claim.Agent, time.Since(j.began).Round(time.Second)
	key := "run " + id
	end := func() (api.Claim, error) {
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
		ended, err := end()
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
