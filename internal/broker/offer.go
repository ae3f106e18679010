package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// Offer offers a task that the agent holds, or an open one. An open task is claimed first, by the
// protocol, so that nobody else gets it meanwhile. Then one write gives up the claim and assigns
// the task to that other agent. The error is one of Claim's, or of Complete's.
func (b *Broker) Offer(ctx context.Context, _ Caller, in *api.TaskInput[api.OfferRequest]) (api.Offered, error) {
	r := in.Body
	cl, until, err := b.offer(ctx, task.ID(in.ID), r)
	if err != nil {
		return api.Offered{}, err
	}
	out := b.handedOver(cl)
	out.Offer = &api.Offer{State: api.Reviewing, From: r.Agent, To: r.To, ExpiresAt: b.time(until)}
	return out, nil
}

// handedOver converts a claim that was given up for another agent.
func (b *Broker) handedOver(cl claim.Hold) api.Offered {
	out := api.Offered{Task: b.ref(cl.Task)}
	if cl.State == claim.Finishing {
		out.Detail, out.Owed = api.Saying(errors.New(cl.Detail)), b.owed(cl)
	}
	return out
}

// offer is Offer. It returns the ended claim, and when the offer ends.
func (b *Broker) offer(ctx context.Context, id task.ID, r api.OfferRequest) (claim.Hold, time.Time, error) {
	if err := b.checkName(r.To); err != nil {
		return claim.Hold{}, time.Time{}, err
	}
	if r.To == r.Agent {
		return claim.Hold{}, time.Time{}, &InvalidError{Detail: fmt.Sprintf("%s cannot offer a task to itself: claim it", r.Agent)}
	}
	if err := b.keptByColumn(id, "offered"); err != nil {
		return claim.Hold{}, time.Time{}, err
	}
	cl, taken := b.claimer.On(id)
	switch {
	case taken && cl.Agent != r.Agent, taken && cl.State != claim.Held && cl.State != claim.Finishing:
		return claim.Hold{}, time.Time{}, claim.Occupied(cl)
	case taken && cl.State == claim.Finishing && cl.Finish.To == r.To:
		return cl, b.now().Add(b.inbox.Offer), nil
	case !taken:
		var err error
		if cl, err = b.claimBriefly(ctx, r.Agent, id); err != nil {
			return claim.Hold{}, time.Time{}, err
		}
	}
	cl, err := b.claimer.Finish(context.WithoutCancel(ctx), cl.ID, claim.Finish{As: claim.EndReleased, Summary: r.Text, To: r.To, For: b.inbox.Offer})
	b.notifiedByError(ctx, err)
	b.Changed()
	return cl, b.now().Add(b.inbox.Offer), err
}

// keptByColumn returns the refusal to hand on a task that the column of assignees gives to somebody.
// dibs does not write there, so it would be theirs again at once. It returns nil if nobody is there.
func (b *Broker) keptByColumn(id task.ID, what string) error {
	t, _ := b.mirror.Task(id)
	if t.Assignee == "" {
		return nil
	}
	return &claim.Denied{Code: claim.CodeReserved, Task: t, Holder: t.Assignee, Detail: fmt.Sprintf(
		"%q was not %s: %s is in the board's column of assignees, and dibs does not write there; ask a person to take %[3]s out", t.Title, what, t.Assignee)}
}

// claimBriefly claims a task in order to give it up at once.
func (b *Broker) claimBriefly(ctx context.Context, agent string, id task.ID) (claim.Hold, error) {
	t, known := b.mirror.Task(id)
	if !known {
		t = task.Task{ID: id}
	}
	return b.claimer.Claim(ctx, claim.Request{Agent: agent, Task: t, Brief: true})
}

// Decline refuses a task that is offered or assigned to the agent. The task is then open to all,
// and the agent that offered it is told the reason.
func (b *Broker) Decline(ctx context.Context, _ Caller, in *api.TaskInput[api.DeclineRequest]) (api.Offered, error) {
	cl, err := b.decline(ctx, in.Body.Agent, task.ID(in.ID), in.Body.Reason)
	if err != nil {
		return api.Offered{}, err
	}
	return b.handedOver(cl), nil
}

func (b *Broker) decline(ctx context.Context, agent string, id task.ID, reason string) (claim.Hold, error) {
	o, err := b.offerOf(ctx, id)
	if err != nil {
		return claim.Hold{}, err
	}
	cl, taken := b.claimer.On(id)
	if !taken || cl.Agent != agent || cl.State != claim.Held {
		t, known := b.mirror.Task(id)
		if !known && o.To != agent {
			return claim.Hold{}, ErrNoTask
		}
		// The mirror may not show yet an offer made through another daemon.
		if to := claim.Assignee(t); to != agent && o.To != agent {
			detail := fmt.Sprintf("%q is not offered or assigned to %s", t.Title, agent)
			if to != "" {
				detail += ", but to " + to
			}
			return claim.Hold{}, &claim.Denied{Code: claim.CodeReserved, Task: t, Holder: to, Detail: detail}
		}
		if err := b.keptByColumn(id, "declined"); err != nil {
			return claim.Hold{}, err
		}
		if cl, err = b.claimBriefly(ctx, agent, id); err != nil {
			return claim.Hold{}, err
		}
	}
	return b.giveBack(ctx, cl, o, claim.Declined, reason)
}

// giveBack opens a task to all, and tells the agent that offered it.
func (b *Broker) giveBack(ctx context.Context, cl claim.Hold, o inbox.Offer, answer claim.Answer, reason string) (claim.Hold, error) {
	ctx = context.WithoutCancel(ctx)
	what := "not answered in time; the task is open to all again"
	if answer == claim.Declined {
		what = strings.TrimSuffix("declined: "+reason, ": ")
	}
	cl, err := b.claimer.Finish(ctx, cl.ID, claim.Finish{As: claim.EndReleased, Summary: what, Answer: answer, From: o.From})
	b.notifiedByError(ctx, err)
	b.Changed()
	if err != nil || o.From == "" {
		return cl, err
	}
	t := cl.Task
	t.Status = task.Open
	_, err = b.inbox.Inbox.AddTriggers(ctx, inbox.Trigger{
		Type: inbox.Message, Agent: o.From, From: o.To, At: b.now(), Task: t, Text: what, Key: "answer " + o.ID,
	})
	b.Published()
	return cl, err
}

// offerOf returns a task's offer; its ID is empty if there is none.
func (b *Broker) offerOf(ctx context.Context, id task.ID) (inbox.Offer, error) {
	offers, err := b.inbox.Inbox.Offers(ctx)
	if i := slices.IndexFunc(offers, func(o inbox.Offer) bool { return o.Task == id }); i >= 0 {
		return offers[i], err
	}
	return inbox.Offer{}, err
}

// TakeBackOffers opens the tasks of expired offers to all. It returns when the next offer expires;
// zero if there is none.
func (b *Broker) TakeBackOffers(ctx context.Context) (next time.Time, err error) {
	offers, err := b.inbox.Inbox.Offers(ctx)
	errs := []error{err}
	for _, o := range offers {
		if b.now().Before(o.Until) {
			if next.IsZero() || o.Until.Before(next) {
				next = o.Until
			}
			continue
		}
		if err := b.takeBack(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("the offer of task %s to %s: %w", o.Task, o.To, err))
		}
	}
	return next, errors.Join(errs...)
}

func (b *Broker) takeBack(ctx context.Context, o inbox.Offer) error {
	if t, known := b.mirror.Task(o.Task); known && claim.AssignedAgent(t) != o.To {
		return b.inbox.Inbox.EndOffer(ctx, o.Task) // somebody changed the task
	}
	// In the name of the agent that did not answer: nobody else may claim the task.
	cl, err := b.claimBriefly(ctx, o.To, o.Task)
	denied, isDenied := errors.AsType[*claim.Denied](err)
	switch {
	case isDenied && (denied.Code == claim.CodeNotOpen || denied.Code == claim.CodeReserved || denied.Code == claim.CodeNotOffered || denied.Code == claim.CodeNotFound):
		return b.inbox.Inbox.EndOffer(ctx, o.Task)
	case err != nil:
		return err
	}
	_, err = b.giveBack(ctx, cl, o, claim.Expired, "")
	return err
}
