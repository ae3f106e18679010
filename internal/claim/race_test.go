package claim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
)

// quick is a network in which a read and a write together stay below the write
// window of the default policy.
var quick = sim.Uniform(300 * time.Millisecond)

// raced runs one race of 2 to 8 agents in at least 2 daemons for a fresh or a
// stale task, and returns the claims that were granted.
func raced(t *testing.T, seed uint64, policy claim.Policy) (granted []claim.Hold) {
	r := rand.New(rand.NewPCG(seed, 0))
	first := openTask()
	if r.IntN(2) == 0 {
		first = staleTask()
	}
	inWorld(t, first, func(w *world) {
		var daemons []*sim.Daemon
		for i := range 2 + r.IntN(3) {
			daemons = append(daemons, w.start(sim.DaemonOptions{
				Policy:       policy,
				StoreOptions: sim.StoreOptions{Name: fmt.Sprint(i), Seed: seed, Latency: quick},
			}))
		}
		var entrants []entrant
		for i := range max(len(daemons), 2+r.IntN(7)) {
			entrants = append(entrants, entrant{
				daemon: daemons[i%len(daemons)], agent: fmt.Sprintf("agent %d", i),
				after: time.Duration(r.Int64N(int64(3 * time.Second))),
			})
		}
		granted = w.race(entrants...)
	})
	return granted
}

func TestRacesHaveOneWinner(t *testing.T) {
	for seed := range uint64(500) {
		if n := len(raced(t, seed, sim.Policy())); n != 1 {
			t.Errorf("seed %d: %d agents were granted the task, want 1", seed, n)
		}
	}
}

// The same races without a settle wait have more winners than one, which shows
// that they could.
func TestRacesWithoutSettling(t *testing.T) {
	policy := sim.Policy()
	policy.Settle, policy.Exclusive = 0, true
	double := 0
	for seed := range uint64(500) {
		if len(raced(t, seed, policy)) > 1 {
			double++
		}
	}
	if double == 0 {
		t.Error("no race had two winners: the races prove nothing")
	}
	t.Logf("%d of 500 races had two winners or more", double)
}
