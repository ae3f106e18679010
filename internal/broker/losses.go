package broker

import (
	"context"
	"errors"
	"slices"

	"dibs/internal/claim"
)

// only finds the claim that an agent means who names none: the only one that it holds,
// unless one was taken from it that it may take this for. That is so
//   - until an answer has named the loss;
//   - for a claim that the agent held beside the lost one, for as long as it is held:
//     two sessions may share a name, and only one of them was answered;
//   - where nothing is held, here or at another member of the cluster, and nothing was granted
//     since.
//
// Then it is the lost one: whatever is asked of that is refused, and the refusal says
// what became of it.
func (b *Broker) only(ctx context.Context, agent string) (claim.Claim, error) {
	held, err := b.Claims(ctx, agent)
	if err != nil {
		return claim.Claim{}, err
	}
	losses, err := b.journal.Losses(ctx, agent)
	if err != nil {
		return claim.Claim{}, err
	}
	i := slices.IndexFunc(losses, func(l claim.Loss) bool { return !l.Told })
	switch {
	case i >= 0:
	case len(held) == 1:
		if i = slices.IndexFunc(losses, func(l claim.Loss) bool { return slices.Contains(l.Beside, held[0].ID) }); i < 0 {
			return held[0], nil
		}
	case len(held) == 0:
		if elsewhere := b.heldElsewhere(agent); len(elsewhere) > 0 {
			return claim.Claim{}, onlyElsewhere(agent, elsewhere)
		}
		i = slices.IndexFunc(losses, func(l claim.Loss) bool { return l.Last })
	}
	if i < 0 {
		return claim.Claim{}, &AmbiguousError{Agent: agent, Claims: held}
	}
	return losses[i].Claim, nil
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

func (b *Broker) tellOf(ctx context.Context, id claim.ID) {
	if err := b.journal.Told(context.WithoutCancel(ctx), id); err != nil {
		b.log.Error("that an agent was told of a loss could not be journalled", "claim", id, "error", err)
	}
}

// takenFrom returns the last claim that the agent was granted, of those on a task, the
// newest first, if it was taken from it.
func takenFrom(agent string, claims []claim.Claim) (claim.Claim, bool) {
	i := slices.IndexFunc(claims, func(c claim.Claim) bool { return c.Agent == agent && !c.Started.IsZero() })
	if i < 0 || !claims[i].Taken() {
		return claim.Claim{}, false
	}
	return claims[i], true
}
