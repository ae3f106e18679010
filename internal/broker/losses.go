package broker

import (
	"context"
	"errors"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/inbox"
)

// only finds the claim that an agent means who names none: the only one that it holds. It
// is a lost one instead
//   - if no answer has told the agent of that loss yet;
//   - if the agent holds nothing, here or at another member of the cluster, and was granted
//     nothing since.
//
// Whatever is asked of a lost claim is refused, and the refusal says what became of it. One
// answer is enough, whichever session of the agent got it: an agent that never names its
// claims must not stand still. Sessions that share a name have to name them.
func (b *Broker) only(ctx context.Context, agent string) (claim.Hold, error) {
	held := b.claimer.Claims(agent)
	losses, err := b.losses(ctx, agent)
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

// tell takes note that a refusal tells an agent that its claim was taken. If that cannot
// be stored, the agent is told once more.
func (b *Broker) tell(ctx context.Context, err error) {
	lost, ok := errors.AsType[*claim.Lost](err)
	if !ok {
		return
	}
	b.tellOf(ctx, lost.Claim.ID)
}

// tellAs takes note that the agent was told of what became of its claim, if that was taken
// from it.
func (b *Broker) tellAs(ctx context.Context, agent string, cl claim.Hold) {
	if cl.Agent == agent && cl.Taken() {
		b.tellOf(ctx, cl.ID)
	}
}

// tellBy takes note that an agent is told of its losses by the triggers that a poll has
// taken.
func (b *Broker) tellBy(ctx context.Context, agent string, triggers []inbox.Trigger) {
	if !slices.ContainsFunc(triggers, func(t inbox.Trigger) bool { return t.Type == inbox.ClaimLost }) {
		return
	}
	losses, err := b.journal.Losses(ctx, agent)
	if err != nil {
		b.log.Error("that an agent was told of a loss could not be journalled", "agent", agent, "error", err)
	}
	for _, l := range losses {
		tells := func(t inbox.Trigger) bool { // one from before this claim tells of another
			return t.Type == inbox.ClaimLost && t.Task.ID == l.Task.ID && !t.At.Before(l.Started)
		}
		if !l.Told && slices.ContainsFunc(triggers, tells) {
			b.tellOf(ctx, l.ID)
		}
	}
}

func (b *Broker) tellOf(ctx context.Context, id claim.ID) {
	if err := b.journal.Told(context.WithoutCancel(ctx), id); err != nil {
		b.log.Error("that an agent was told of a loss could not be journalled", "claim", id, "error", err)
	}
}

// takenFrom returns the last claim that the agent was granted, of those on a task, the
// newest first, if it was taken from it.
func takenFrom(agent string, claims []claim.Hold) (claim.Hold, bool) {
	i := slices.IndexFunc(claims, func(c claim.Hold) bool { return c.Agent == agent && !c.Started.IsZero() })
	if i < 0 || !claims[i].Taken() {
		return claim.Hold{}, false
	}
	return claims[i], true
}
