package claimtest

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// OpKind is what an agent did.
type OpKind string

// The kinds of operations.
const (
	OpClaim  OpKind = "claim"
	OpFinish OpKind = "finish" // whatever way it ended
	// OpExpire is the end of the lease as the agent was told it last. It takes
	// effect at that moment or later, unseen.
	OpExpire OpKind = "expire"
	// OpLose is the daemon's finding that the claim is lost, which it tells the
	// agent from then on.
	OpLose OpKind = "lose"
)

// Operation is one thing that an agent did, from its call to its return.
type Operation struct {
	Agent int // its number in the race
	Kind  OpKind
	Claim claim.ID // empty for a claim that was denied
	Task  task.ID  // of a claim that was granted
	// OK is set for a claim that was granted and for a finish that was accepted.
	OK bool
	// Call and Return are counted from the beginning of the race. An operation
	// whose effect may come later than its return, returns never: Return is 0.
	Call, Return time.Duration
}

// losses are the claims that the daemons found lost, by their events, the times
// of which are cut to the second.
func losses(events []claim.Fact, began time.Time) []Operation {
	var out []Operation
	for _, e := range events {
		if e.Kind == claim.KindLost {
			out = append(out, Operation{Kind: OpLose, Claim: e.Claim, OK: true, Call: e.At.Sub(began)})
		}
	}
	return out
}

// call begins an operation of the agent.
func (a *agent) call(op Operation) Operation {
	op.Agent, op.Call = a.number, time.Since(a.began)
	return op
}

// returned ends an operation of the agent and keeps it.
func (a *agent) returned(op Operation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if op.Return = time.Since(a.began); op.Kind == OpFinish {
		op.Return = 0 // it may be delivered later
	}
	a.Operations = append(a.Operations, op)
}

// expires notes when the agent will stop trusting its claim.
func (a *agent) expires(c claim.Hold) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end := c.ExpiresAt().Sub(a.began)
	for i, op := range a.Operations {
		if op.Kind == OpExpire && op.Claim == c.ID {
			a.Operations[i].Call = max(op.Call, end)
			return
		}
	}
	a.Operations = append(a.Operations, Operation{Agent: a.number, Kind: OpExpire, Claim: c.ID, OK: true, Call: end})
}
