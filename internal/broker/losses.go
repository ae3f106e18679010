package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// only finds the claim of an agent that names none: the only one that it holds. It is a lost claim
// instead
//   - if no answer has told the agent of that loss yet;
//   - if the agent holds nothing, here or at another member of the cluster, and was granted nothing
//     since.
//
// Every request on a lost claim is refused, and the refusal says what became of it. One such answer
// is enough, whichever session of the agent got it: an agent that never names its claims must not
// get stuck. Sessions that share a name have to name their claims.
func (b *Broker) only(ctx context.Context, agent string) (claim.Hold, error) {
	held := slices.DeleteFunc(b.claimer.Claims(agent), claim.Hold.Taken)
	losses, err := b.journal.Losses(ctx, agent)
	if err != nil {
		return claim.Hold{}, err
	}
	i := slices.IndexFunc(losses, func(l claim.Loss) bool { return !l.Told })
	switch {
	case i >= 0:
	case len(held) == 1:
		return held[0], nil
	case len(held) == 0:
		i = slices.IndexFunc(losses, func(l claim.Loss) bool { return l.Last })
	}
	if i < 0 {
		return claim.Hold{}, &AmbiguousError{Agent: agent, Claims: held}
	}
	return losses[i].Hold, nil
}

// notifiedByError records that a refusal tells an agent that its claim was taken. If that cannot be
// stored, the agent is told once more.
func (b *Broker) notifiedByError(ctx context.Context, err error) {
	lost, ok := errors.AsType[*claim.Lost](err)
	if !ok {
		return
	}
	b.notifiedOf(ctx, lost.Claim.ID)
}

// notifiedByAnswer records that an answer told the agent that its claim was taken, if it was.
func (b *Broker) notifiedByAnswer(ctx context.Context, agent string, cl claim.Hold) {
	if cl.Agent == agent && cl.Taken() {
		b.notifiedOf(ctx, cl.ID)
	}
}

// notifiedByTriggers records that a poll's triggers told the agent of its losses.
func (b *Broker) notifiedByTriggers(ctx context.Context, agent string, triggers []inbox.Trigger) {
	if !slices.ContainsFunc(triggers, func(t inbox.Trigger) bool { return t.Type == inbox.ClaimLost }) {
		return
	}
	losses, err := b.journal.Losses(ctx, agent)
	if err != nil {
		b.log.Error("could not journal that an agent was told of a loss", claim.AttrAgent, agent, claim.AttrError, err)
	}
	for _, l := range losses {
		notifies := func(t inbox.Trigger) bool { // an earlier one is about another claim
			return t.Type == inbox.ClaimLost && t.Task.ID == l.Task.ID && !t.At.Before(l.Started)
		}
		if !l.Told && slices.ContainsFunc(triggers, notifies) {
			b.notifiedOf(ctx, l.ID)
		}
	}
}

func (b *Broker) notifiedOf(ctx context.Context, id claim.ID) {
	if err := b.journal.LossNotified(context.WithoutCancel(ctx), id); err != nil {
		b.log.Error("could not journal that an agent was told of a loss", claim.AttrClaim, id, claim.AttrError, err)
	}
}

// withheldFor is how long a task is not offered to the agent from which somebody took it back.
const withheldFor = time.Hour

// withheld returns the tasks that the agent is not offered because somebody took them back within the
// hour, with who did and why. The journal has them, so they outlive the daemon. A task that was
// assigned to the agent since is offered; the agent may claim all of them by name.
func (b *Broker) withheld(ctx context.Context, agent string) (map[task.ID]claim.Finish, error) {
	if agent == "" {
		return nil, nil
	}
	losses, err := b.journal.Losses(ctx, agent)
	withheld := make(map[task.ID]claim.Finish)
	for _, l := range slices.Backward(losses) {
		if l.Finish == nil || !b.now().Before(l.Finish.At.Add(withheldFor)) {
			continue
		}
		if t, _ := b.mirror.Task(l.Task.ID); claim.Assignee(t) != agent {
			withheld[l.Task.ID] = *l.Finish
		}
	}
	return withheld, err
}

// takenFrom returns the agent's last granted claim among those on a task, newest first, if it was
// taken from it.
func takenFrom(agent string, claims []claim.Hold) (claim.Hold, bool) {
	i := slices.IndexFunc(claims, func(c claim.Hold) bool { return c.Agent == agent && !c.Started.IsZero() })
	if i < 0 || !claims[i].Taken() {
		return claim.Hold{}, false
	}
	return claims[i], true
}

// A review that comes back is like an offer of the task to the agent that had put it up, but the page
// does not show it: for inbox.visibility that agent may claim it before others. The record of the
// return, or the page that a person set to OPEN, outlives the daemon.

// returned returns to whom an open task came back, unless it is anybody's by now. A person who sets a
// task to OPEN leaves the claim on the page, and when it was is known by the page's last edit.
func (b *Broker) returned(t task.Task) (back, bool) {
	if t.Status != task.Open {
		return back{}, false
	}
	r, known := b.backs.get(t.ID)
	if token := claim.ParseToken(t.Token); token.Done && (!known || r.claim != token.ID) {
		c, err := b.claimer.Find(context.Background(), token.ID)
		if err != nil && !errors.Is(err, claim.ErrUnknownClaim) {
			return back{}, false
		}
		r, known = back{claim: token.ID, to: c.Agent}, true
		if c.Ending == claim.EndReview {
			r.until = t.Edited.Add(time.Minute + b.inbox.Visibility) // Notion truncates it to the minute
		}
		b.backs.put(t.ID, r)
	}
	return r, known && b.now().Before(r.until)
}
