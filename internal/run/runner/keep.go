package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

const (
	// again is the pause before a retry when the daemon cannot be reached.
	again = time.Second
	// insist limits the retries to report the outcome of a task.
	insist = time.Minute
)

// keeping keeps a claim while its command runs.
type keeping struct {
	daemon *client.Client
	claim  api.Claim
	remote bool // the daemon is on another machine, and cannot see that this process lives
}

// standing is news about the claim while its command runs: it is in doubt, it stands after all, or
// it is lost. A doubt is over once it stands.
type standing struct {
	doubt doubt
	lost  error // wraps ErrLost
	// now says that nothing may go on, however short a time: somebody else may get the task.
	now bool
}

// doubt is what is said of a claim in doubt, for the task's title and the command's name; empty for
// none.
type doubt string

const (
	leaseOver doubt = "the lease on %q is over: %s is held still until its page was read"
	linkGone  doubt = "the connection that keeps %q is broken: %s is held still until it is back"
)

// lostError is an ErrLost with how the claim ended. The command may have ended it itself.
type lostError struct {
	as  claim.Ending // empty if that is not known
	why string
}

func (e *lostError) Error() string { return ErrLost.Error() + ": " + e.why }

func (e *lostError) Unwrap() error { return ErrLost }

// lost returns the error of a claim on which the daemon refused a request.
func lost(p *api.Problem) error {
	e := &lostError{why: cmp.Or(p.Detail, p.Title)}
	if p.Claim != nil {
		e.as = p.Claim.Outcome
	}
	return e
}

// endOf returns the error of a claim that has ended.
func endOf(c api.Claim) error {
	return &lostError{c.Outcome, cmp.Or(c.Detail, "it was "+string(cmp.Or(c.Outcome, "ended")))}
}

// watch reports how the claim stands, until it is lost or ctx ends. Once its lease is over it is in
// doubt until the page was read: when this machine slept, nobody else may have taken the task.
func (k *keeping) watch(ctx context.Context, tell chan<- standing) {
	report := func(s standing) { pass(ctx, tell, s) }
	until, err := k.claim.ExpiresAt.Time, error(nil)
	for err == nil && ctx.Err() == nil {
		if time.Now().Before(until) {
			until, err = k.listen(ctx, until)
			continue
		}
		report(standing{doubt: leaseOver})
		if until, err = k.judge(ctx); err == nil {
			report(standing{})
		}
	}
	if ctx.Err() == nil {
		report(standing{lost: err})
	}
}

// pass passes something on, unless ctx ends.
func pass[T any](ctx context.Context, to chan<- T, what T) {
	select {
	case to <- what:
	case <-ctx.Done():
	}
}

// listen waits for news of the claim until its lease is over, and returns the end of that.
func (k *keeping) listen(ctx context.Context, until time.Time) (time.Time, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a timer would stand still while the machine sleeps
		for clock.Pause(asking, again) == nil {
			if !time.Now().Before(until) {
				cancel()
			}
		}
	}()
	cl, err := client.Do(asking, k.daemon, api.OpGetClaim, api.GetClaimInput{ID: string(k.claim.ID), Agent: k.claim.Agent, After: api.EventsFuture, Wait: min(time.Minute, max(time.Until(until)/2, time.Second)).String(), Patient: true})
	p, refused := errors.AsType[*api.Problem](err)
	switch {
	case err == nil && cl.State != claim.Held:
		return until, endOf(cl)
	case err == nil:
		return cl.ExpiresAt.Time, nil
	case refused && (p.Code == api.CodeClaimLost || p.Code == api.CodeUnknownClaim):
		return until, lost(p)
	}
	clock.Pause(ctx, min(again, max(0, time.Until(until))))
	return until, nil
}

// judge has the daemon renew a claim whose lease is over, which it does if the page still shows the
// claim, and returns the end of the new lease. It waits for Notion and the journal as long as the
// daemon answers, and for a daemon that does not answer as long as insist.
func (k *keeping) judge(ctx context.Context) (until time.Time, err error) {
	for heard := time.Now(); ; {
		asking, cancel := context.WithTimeout(ctx, insist)
		cl, err := client.Do(asking, k.daemon, api.OpRenew, api.On(string(k.claim.ID), "", api.RenewRequest{Agent: k.claim.Agent}))
		cancel()
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case ctx.Err() != nil:
			return until, ctx.Err()
		case err == nil && time.Now().Before(cl.ExpiresAt.Time):
			return cl.ExpiresAt.Time, nil
		case err == nil:
			return until, fmt.Errorf("%w: its lease is over, and it lives no longer (claim.max_lifetime)", ErrLost)
		case refused && (p.Code.Passes() || p.Code == api.CodeStopping || p.Code == api.CodeBusy):
			heard = time.Now()
		case refused:
			return until, lost(p)
		case time.Since(heard) >= insist:
			return until, fmt.Errorf("%w: its lease is over, and the daemon cannot be asked", ErrLost)
		}
		clock.Pause(ctx, again)
	}
}

// held returns an error unless the daemon says that the claim is held. It is one of ErrLost if it is
// not, or nobody answers for as long as insist.
func (k *keeping) held(ctx context.Context) error {
	for since := time.Now(); ; clock.Pause(ctx, again) {
		asking, cancel := context.WithTimeout(ctx, insist)
		cl, err := client.Do(asking, k.daemon, api.OpGetClaim, api.GetClaimInput{ID: string(k.claim.ID), Agent: k.claim.Agent, After: api.EventsFuture})
		cancel()
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && cl.State != claim.Held:
			return endOf(cl)
		case err == nil && time.Now().Before(cl.ExpiresAt.Time):
			return nil
		case err == nil:
			_, err = k.judge(ctx)
			return err
		case refused && (p.Code == api.CodeClaimLost || p.Code == api.CodeUnknownClaim):
			return lost(p)
		case time.Since(since) >= insist:
			return fmt.Errorf("%w: the daemon cannot be asked whether it is held: %w", ErrLost, err)
		}
	}
}

// renewEvery is how often to renew a claim if the daemon cannot see this process, or the usage has
// grown.
const renewEvery = 30 * time.Second

// renew keeps the claim alive until ctx ends, for a daemon on another machine, and tells any daemon
// the usage so far.
func (k *keeping) renew(ctx context.Context, usage func() (api.Used, error)) {
	var told api.Usage
	until := k.claim.ExpiresAt.Time
	for clock.Pause(ctx, min(renewEvery, max(time.Until(until)/3, time.Second))) == nil {
		used, _ := usage() // what cannot be read may be half written
		if news := used.Usage != nil && *used.Usage != told; !k.remote && !news {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, renewEvery)
		// watch notices a failure by the end of the lease.
		renewed, err := client.Do(asking, k.daemon, api.OpRenew, api.On(string(k.claim.ID), "", api.RenewRequest{Agent: k.claim.Agent, Used: used}))
		cancel()
		if err != nil {
			continue
		}
		until = renewed.ExpiresAt.Time
		if used.Usage != nil {
			told = *used.Usage
		}
	}
}

// reportLost tells the daemon the usage of a lost claim, which was spent all the same.
func (k *keeping) reportLost(used api.Used) {
	if used.Usage != nil {
		ctx, cancel := context.WithTimeout(context.Background(), again)
		defer cancel()
		// It is refused, since the claim is lost, and noted.
		_, _ = client.Do(ctx, k.daemon, api.OpRenew, api.On(string(k.claim.ID), "", api.RenewRequest{Agent: k.claim.Agent, Used: used}))
	}
}

// progressEvery is the shortest time between two reports of progress, and lookEvery that between two
// looks for something new to report.
const (
	progressEvery = 30 * time.Second
	lookEvery     = time.Second
)

// progress reports the last line of the command's output until ctx ends. A report that fails is left
// to the next one: watch notices what matters.
func (k *keeping) progress(ctx context.Context, latest func() string) {
	reported := ""
	for pause := lookEvery; clock.Pause(ctx, pause) == nil; {
		pause = lookEvery
		line := latest()
		if line == "" || line == reported {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, progressEvery)
		_, err := client.Do(asking, k.daemon, api.OpRenew, api.On(string(k.claim.ID), "", api.RenewRequest{Agent: k.claim.Agent, Progress: line}))
		cancel()
		if err == nil {
			reported = line
		}
		pause = progressEvery
	}
}
