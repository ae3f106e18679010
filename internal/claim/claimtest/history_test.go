package claimtest_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/task"

	"github.com/anishathalye/porcupine"
)

// lease is a lock with a lease, as its holders see it. Its state is the claim
// that has it, empty if none. It can be taken while nobody has it; and whoever
// has it has it until he says that he is done, or is told that he has lost it, or
// the lease that he was told of has ended, or somewhat longer.
var lease = porcupine.Model{
	Init: func() any { return claim.ID("") },
	Step: func(state, input, _ any) (bool, any) {
		holder, op := state.(claim.ID), input.(leaseOp)
		if op.ends {
			return holder == op.claim, claim.ID("")
		}
		return holder == "", op.claim
	},
}

// leaseOp takes the lock, or gives it up.
type leaseOp struct {
	claim claim.ID
	ends  bool
}

// leaseHistory is what the agents did, in the terms of the lock. An attempt that
// was denied may have been for any reason, and says nothing.
func leaseHistory(operations []claimtest.Operation) []porcupine.Operation {
	granted := make(map[claim.ID]claimtest.Operation)
	ends := make(map[claim.ID]time.Duration)
	for _, op := range operations {
		if op.Kind == claimtest.OpClaim {
			if op.OK {
				granted[op.Claim] = op
			}
			continue
		}
		if end, ok := ends[op.Claim]; !ok || op.Call < end {
			ends[op.Claim] = op.Call
		}
	}
	var history []porcupine.Operation
	for id, op := range granted {
		history = append(history,
			porcupine.Operation{ClientId: op.Agent, Input: leaseOp{claim: id}, Call: int64(op.Call), Return: int64(op.Return)},
			porcupine.Operation{ClientId: op.Agent, Input: leaseOp{claim: id, ends: true}, Call: int64(max(ends[id], op.Return)), Return: math.MaxInt64})
	}
	return history
}

// linearizable reports whether what the agents did in a race can have been done
// with a lock with a lease.
func linearizable(r claimtest.Race) bool {
	tasks := make(map[task.ID][]claim.ID)
	for _, op := range r.Operations {
		if op.Kind == claimtest.OpClaim && op.OK {
			tasks[op.Task] = append(tasks[op.Task], op.Claim)
		}
	}
	for _, claims := range tasks {
		ofTask := slices.DeleteFunc(slices.Clone(r.Operations), func(op claimtest.Operation) bool { return !slices.Contains(claims, op.Claim) })
		if !porcupine.CheckOperations(lease, leaseHistory(ofTask)) {
			return false
		}
	}
	return true
}

// What agents do with a broken protocol cannot be done with a lock. That what
// they do with ours can, is part of TestRaces.
func TestHistoriesOfMutants(t *testing.T) {
	for _, name := range []string{"no settle wait", "the agent's name as token", "stale without the minute"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mutants[name].options()
			for o.Seed = 1; o.Seed <= 2_000; o.Seed++ {
				if !linearizable(run(t, o)) {
					t.Logf("caught by seed %d", o.Seed)
					return
				}
			}
			t.Error("survived")
		})
	}
}
