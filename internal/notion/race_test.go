package notion_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// raced lets three daemons, each with a connection of its own, claim one task at
// about the same time, and returns how many of them were granted it.
func raced(t *testing.T, seed uint64, policy claim.Policy) (granted int) {
	inWorld(t, func(w *world) {
		random := rand.New(rand.NewPCG(seed, 0))
		var mu sync.Mutex
		upTo := func(d time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(d)))
		}
		id := w.page(props{"Name": title("Wanted")})
		var claimers []*claim.Claimer
		for range 3 {
			w.through(func(*http.Request) {})
			claimer, err := claim.New(claim.Config{Store: w.tasks(notion.TaskSchema{}), Ledger: sim.NewLedger(), Policy: policy})
			if err != nil {
				w.Fatal(err)
			}
			defer claimer.Close()
			claimers = append(claimers, claimer)
		}
		w.emulator.SetLatency(func(*http.Request) (before, after time.Duration) {
			return upTo(300 * time.Millisecond), upTo(300 * time.Millisecond)
		})
		var race sync.WaitGroup
		for _, claimer := range claimers {
			race.Go(func() {
				time.Sleep(upTo(time.Second))
				if _, err := claimer.Claim(w.Context(), claim.Request{Agent: "Sandman", Task: task.Task{ID: id}}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					granted++
				}
			})
		}
		race.Wait()
	})
	return granted
}

// The protocol holds over the wire: of several daemons, one wins, though all of
// them speak for an agent of the same name.
func TestRace(t *testing.T) {
	for seed := range uint64(40) {
		if n := raced(t, seed, sim.Policy()); n != 1 {
			t.Errorf("seed %d: %d daemons were granted the task, want 1", seed, n)
		}
	}
}

// Without the settle wait more than one wins now and then, which shows that they
// do race.
func TestRaceWithoutSettling(t *testing.T) {
	policy := sim.Policy()
	policy.Settle, policy.Exclusive = 0, true
	for seed := range uint64(40) {
		if raced(t, seed, policy) > 1 {
			return
		}
	}
	t.Error("no race had two winners: the races prove nothing")
}
