package claimtest_test

import (
	"math"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"

	"github.com/anishathalye/porcupine"
)

// lease is a lock with a lease, as its holders see it. Its state is the claim
// that has it, empty if none. It can be taken while nobody has it; and whoever
// has it has it until he says that he is done, or the lease that he was told of
// has ended, or somewhat longer.
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

// The histories of the races are those of a lock with a lease.
func TestHistories(t *testing.T) {
	n := uint64(300)
	if *long {
		n = 20_000
	}
	shards(t, n, func(t *testing.T, seed uint64) {
		race := run(t, claimtest.RaceOptions{Seed: seed})
		if !porcupine.CheckOperations(lease, leaseHistory(race.Operations)) {
			t.Errorf("seed %d: what the agents did cannot have been done with a lock:\n%v", seed, race)
		}
	})
}

// Those of broken protocols are not.
func TestHistoriesOfMutants(t *testing.T) {
	for _, name := range []string{"no settle wait", "the agent's name as token", "stale without the minute"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := claimtest.RaceOptions{Policy: claimtest.RacePolicy(), Store: mutants[name].store}
			if change := mutants[name].policy; change != nil {
				change(&o.Policy)
			}
			for o.Seed = 1; o.Seed <= 2_000; o.Seed++ {
				if !porcupine.CheckOperations(lease, leaseHistory(run(t, o).Operations)) {
					t.Logf("caught by seed %d", o.Seed)
					return
				}
			}
			t.Error("survived")
		})
	}
}
