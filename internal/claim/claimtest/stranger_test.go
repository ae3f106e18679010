package claimtest_test

import (
	"testing"
	"testing/synctest"

	"dibs/internal/claim/claimtest"
	"dibs/internal/claim/sim"
)

// A leader that does not let its claims settle, beside a stranger with a ledger of its own, makes two
// holders in some order. From the sight of the stranger on it does in none.
func TestLeaderBesideAStranger(t *testing.T) {
	for seen, want := range map[bool]bool{false: true, true: false} {
		twice := false
		for s := range claimtest.Schedules(2, sim.Policy()) {
			for leader := range 2 {
				synctest.Test(t, func(t *testing.T) {
					daemons := 0
					granted, _ := s.Run(t.Context(), openTask(), sim.Policy(), func(_ *sim.Register, o *sim.DaemonOptions) {
						if daemons == leader {
							o.Policy.Exclusive, o.Policy.Settle = true, 0
							o.Beside = func() bool { return seen }
						}
						daemons++
					})
					if len(granted) > 1 {
						twice = true
						if !want {
							t.Errorf("%v, where claimer %d leads: both were granted the task", s, leader)
						}
					}
				})
			}
		}
		if twice != want {
			t.Errorf("the stranger was seen: %v, and both were granted the task: %v", seen, twice)
		}
	}
}
