package claim

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Arbiter decides between the daemons of a cluster: what is written to a task's page that
// competes with others (a claim, a renewal, a finish, the mark of a sweep) is written only
// by who has the task there. Implementations are safe for concurrent use.
type Arbiter interface {
	// Hold makes sure that c has its task, and keeps it from everybody else for long
	// enough that a visit to its page which begins now, and the write of that visit, are
	// over before: Policy.Stay. A claim whose task nobody has gets it again. c.Fence
	// is set to the fence that it has then. The error is an *Elsewhere if another claim has
	// the task, and an *ArbiterError if that cannot be found out.
	Hold(ctx context.Context, c *Claim) error

	// Doubt has the next Hold of a claim ask who has its task, however lately that was found
	// out by the clocks of this machine: they may have stood still since.
	Doubt(id ID)

	// Release gives up what Hold got for a claim that was never saved.
	Release(ctx context.Context, c Claim)

	// Cluster names what decides: daemons that have the same one keep out of each other's
	// way without a settle wait.
	Cluster() string
}

// Elsewhere is the error of Arbiter.Hold if another claim has the task.
type Elsewhere struct {
	// Holder is that claim, as far as it is known.
	Holder Claim
}

func (e *Elsewhere) Error() string { return e.Holder.occupies() }

// unwritten is the error of a write that was not sent because of e.
func (e *Elsewhere) unwritten() error {
	return Errorf(Unavailable, LandedNo, "nothing was written, as the cluster has given the task to another claim: %w; it is tried again", e)
}

// ArbiterError is the error of what the arbiter has to decide, and could not be asked, or
// may not be believed.
type ArbiterError struct {
	// RetryAfter is how long to wait before trying again.
	RetryAfter time.Duration
	// Err says what happened and what to do, in one line.
	Err error
}

func (e *ArbiterError) Error() string { return e.Err.Error() }

func (e *ArbiterError) Unwrap() error { return e.Err }

// Deny is the denial of c for want of an arbiter.
func (e *ArbiterError) Deny(c Claim) *Denied {
	return &Denied{
		Code: CodeArbiterUnavailable, Task: c.Task, RetryAfter: e.RetryAfter, Local: true, Err: e,
		Detail: fmt.Sprintf("no task is claimed without the cluster's etcd: %v; try again later", e.Err),
	}
}

// Event is the event of c having been denied at now, where no page was asked for.
func (d *Denied) Event(c Claim, now time.Time) Event {
	e := c.event(KindDenied, now)
	e.Code, e.Holder, e.Expires, e.Detail = d.Code, d.Holder, d.ExpiresAt, d.Detail
	return e
}

// hold is Arbiter.Hold, where there is an arbiter. One that cannot be asked is like a page
// that cannot: what is owed waits.
func (c *Claimer) hold(ctx context.Context, cl *Claim) error {
	if c.arbiter == nil || cl == nil {
		return nil
	}
	err := c.arbiter.Hold(ctx, cl)
	if failed := arbiterFailed(err); failed != nil {
		return &StoreError{Kind: Unavailable, Landed: LandedNo, RetryAfter: failed.RetryAfter, Err: failed}
	}
	return err
}

// doubt is Arbiter.Doubt, where there is an arbiter.
func (c *Claimer) doubt(cl *Claim) {
	if c.arbiter != nil && cl != nil {
		c.arbiter.Doubt(cl.ID)
	}
}

// holds is hold for a visit: that another claim has the task is no failure then.
func (c *Claimer) holds(ctx context.Context, cl *Claim) (*Elsewhere, error) {
	err := c.hold(ctx, cl)
	if elsewhere, ok := errors.AsType[*Elsewhere](err); ok {
		return elsewhere, nil
	}
	return nil, err
}

// arbiterFailed returns why the arbiter did not decide, if that is what err says.
func arbiterFailed(err error) *ArbiterError {
	failed, _ := errors.AsType[*ArbiterError](err)
	return failed
}

// release is Arbiter.Release, where there is an arbiter.
func (c *Claimer) release(ctx context.Context, cl Claim) {
	if c.arbiter != nil {
		c.arbiter.Release(context.WithoutCancel(ctx), cl)
	}
}

// Settings returns the settings under which claims are made here.
func (c *Claimer) Settings() Settings {
	s := c.policy.Settings()
	if c.arbiter != nil {
		s.Cluster = c.arbiter.Cluster()
	}
	return s
}
