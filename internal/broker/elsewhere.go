package broker

import (
	"context"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Elsewhere is what was claimed at other members of the cluster, as far as that is known here
// without asking. Its methods are safe for concurrent use.
type Elsewhere interface {
	// On returns the claim on a task, if there is one. If it has just ended, and what became of
	// its task is not known here, its state is Ended.
	On(task.ID) (claim.Claim, bool)
	// Of returns the claims of an agent, or of all if that is empty, in state Held or
	// Finishing, oldest first.
	Of(agent string) []claim.Claim
}

// nowhere is Elsewhere without a cluster.
type nowhere struct{}

func (nowhere) On(task.ID) (claim.Claim, bool) { return claim.Claim{}, false }
func (nowhere) Of(string) []claim.Claim        { return nil }

// Holdings are claims that are held, or that their agents are done with while Notion has yet
// to be told, oldest first.
type Holdings struct {
	Here      []claim.Claim // through this daemon
	Elsewhere []claim.Claim // through other members of the cluster, as far as is known here
}

// Holdings returns what an agent holds in the whole cluster, or all agents do if that is empty.
func (b *Broker) Holdings(_ context.Context, agent string) (Holdings, error) {
	return Holdings{b.claimer.Claims(agent), b.heldElsewhere(agent)}, nil
}

// heldElsewhere returns what the agent holds through other members, with what is known here of
// the tasks.
func (b *Broker) heldElsewhere(agent string) []claim.Claim {
	claims := b.elsewhere.Of(agent)
	for i, c := range claims {
		claims[i].Task = b.taskOf(c)
	}
	return claims
}

// complete puts what is known here of the tasks into a denial because of claims of other
// members, which tell no more of them than a name.
func (b *Broker) complete(d *claim.Denied) {
	if d.Member != "" {
		d.Task = b.taskOf(claim.Claim{Task: d.Task, Agent: d.Holder, State: claim.Held})
	}
	for i, c := range d.Has {
		if c.Member != "" {
			d.Has[i].Task = b.taskOf(c)
		}
	}
}

// taskOf returns what is known here of the task of another member's claim.
func (b *Broker) taskOf(c claim.Claim) task.Task {
	if t, ok := b.mirror.Task(c.Task.ID); ok {
		return claimed(t, c)
	}
	return c.Task
}

// madeElsewhere returns the claim of that id, if another member has it.
func (b *Broker) madeElsewhere(id claim.ID) (claim.Claim, bool) {
	all := b.heldElsewhere("")
	i := slices.IndexFunc(all, func(c claim.Claim) bool { return c.ID == id })
	if i < 0 {
		return claim.Claim{}, false
	}
	return all[i], true
}

// claimed is t as the claim on it has it, which another member has made. The page is known here
// only when it was read or passed on.
func claimed(t task.Task, c claim.Claim) task.Task {
	if t.Status == task.Open && (c.State == claim.Held || c.State == claim.Finishing) {
		t.Status, t.ClaimedBy, t.ClaimedAt = task.InProgress, c.Agent, c.ClaimedAt
	}
	return t
}
