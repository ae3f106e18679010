package claimtest

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// OpKind is the kind of an operation.
type OpKind string

// The kinds of operations.
const (
	OpClaim  OpKind = "claim"
	OpFinish OpKind = "finish" // with any ending
	// OpExpire is the end of the lease that the agent was last told. It takes effect at that
	// moment or later, unseen.
	OpExpire OpKind = "expire"
	// OpLose is the daemon's discovery that the claim is lost. The agent is told from then on.
	OpLose OpKind = "lose"
)

// Operation is one operation of an agent, from its call to its return.
type Operation struct {
	Agent int // its number in the race
	Kind  OpKind
	Claim claim.ID // empty for a claim that was denied
	Task  task.ID  // of a claim that was granted
	// OK is set if a claim was granted or a finish accepted.
	OK bool
	// Call and Return count from the beginning of the race. Return is 0 if the effect may come
	// later than the return.
	Call, Return time.Duration
}

// losses returns the claims that the daemons found lost, according to their facts, whose times
// are cut to the second.
func losses(events []claim.Fact, began time.Time) []Operation {
	var out []Operation
	for _, e := range events {
		if e.Kind == claim.KindLost {
			out = append(out, Operation{Kind: OpLose, Claim: e.Claim, OK: true, Call: e.At.Sub(began)})
		}
	}
	return out
}

// call starts an operation of the agent.
func (a *agent) call(op Operation) Operation {
	op.Agent, op.Call = a.number, time.Since(a.began)
	return op
}

// returned ends an operation of the agent and stores it.
func (a *agent) returned(op Operation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if op.Return = time.Since(a.began); op.Kind == OpFinish {
		op.Return = 0 // it may be delivered later
	}
	a.Operations = append(a.Operations, op)
}

// expires records when the agent stops trusting its claim.
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
