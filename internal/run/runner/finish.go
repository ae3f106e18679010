package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// finish reports the outcome to the daemon, by the command's exit code. said is what the command
// said of it. It retries while there is no daemon, or its journal or Notion is needed and cannot be
// used; the key keeps a repetition from acting twice. Once running has ended, as after a signal, it does not wait for a
// journal.
func (j *job) finish(running context.Context, code int, said string) error {
	ctx, cancel := context.WithTimeout(context.Background(), insist)
	defer cancel()
	key := "run " + string(j.claim.ID)
	if j.refused {
		key += " not done"
	}
	end := j.ending(code, said)
	for told := false; ; {
		ended, err := end(ctx, key)
		_, away := errors.AsType[*client.UnreachableError](err)
		p, refused := errors.AsType[*api.Problem](err)
		if refused && p.Code == api.CodeClaimLost {
			err := lost(p)
			j.become(claim.EndLost, code, err.Error())
			return err
		}
		wait := again
		waiting := ctx
		unsaved := refused && p.Code.Passes() && p.RetryAfter > 0 && !j.stopped && running.Err() == nil
		if unsaved {
			waiting, wait = running, max(again, time.Duration(p.RetryAfter)*time.Second)
		}
		if !away && !unsaved && !(refused && (p.Code == api.CodeStopping || p.Code == api.CodeBusy)) {
			if err == nil {
				j.result.Task, j.result.Pending = ended.Task, ended.Pending
				j.result.Outcome = cmp.Or(ended.Outcome, j.result.Outcome)
			}
			if err == nil && ended.Pending {
				j.Say("%q: pending: Notion has not been told yet. It is not known %s", ended.Task.Title, task.OneLine(ended.Unknown, unicode.ReplacementChar))
			}
			return err
		}
		if !told {
			j.Say("%v; trying again for a minute", err)
			told = true
		}
		if clock.Pause(waiting, wait) != nil || ctx.Err() != nil {
			return err
		}
	}
}

// ending returns the request that ends the claim, by the command's exit code and what it said.
func (j *job) ending(code int, said string) func(context.Context, string) (api.Claim, error) {
	id, agent := string(j.claim.ID), j.claim.Agent
	used := j.spent()
	took := time.Since(j.began).Round(time.Second)
	release := func(ctx context.Context, key string) (api.Claim, error) {
		return j.Daemon.Release(ctx, id, api.StopRequest{Agent: agent, Reason: j.result.Text, Used: used}, key)
	}
	switch {
	case j.stopped:
		j.become(claim.EndReleased, code, j.name()+" was stopped")
		return release
	case unstarted(code):
		j.become(claim.EndReleased, code, "the command could not be started: "+cmp.Or(said, fmt.Sprintf("%s ended with %d", j.name(), code)))
		return release
	case code == TryLater:
		j.become(claim.EndReleased, code, cmp.Or(said, j.name()+" wants to be tried later"))
		return release
	case code == 0:
		j.become(claim.EndCompleted, code, cmp.Or(said, fmt.Sprintf("%s ended well after %s", j.name(), took)))
		return func(ctx context.Context, key string) (api.Claim, error) {
			return j.Daemon.Complete(ctx, id, api.CompleteRequest{Agent: agent, Summary: j.result.Text, Used: used}, key)
		}
	}
	j.become(claim.EndFailed, code, cmp.Or(said, fmt.Sprintf("%s ended with %d", j.name(), code)))
	return func(ctx context.Context, key string) (api.Claim, error) {
		return j.Daemon.Fail(ctx, id, api.FailRequest{Agent: agent, Reason: j.result.Text, Used: used}, key)
	}
}
