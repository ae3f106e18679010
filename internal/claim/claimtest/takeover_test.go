package claimtest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/detector"
)

// leading is the policy of a leader, which is the only claimer.
func leading() claim.Policy {
	p := claimtest.RacePolicy()
	p.Exclusive, p.Settle = true, 0
	return p
}

// takenOver has a leader be deposed at every point of a deed, in one way, and returns how many
// points there were, and what went wrong.
func takenOver(t *testing.T, o claimtest.Takeover) (points int, wrong []string) {
	t.Helper()
	for o.Point = 0; ; o.Point++ {
		var race claimtest.Race
		struck := false
		synctest.Test(t, func(t *testing.T) { race, struck = o.Run(t.Context()) })
		if !struck {
			return o.Point, wrong
		}
		for _, w := range race.Wrong {
			wrong = append(wrong, fmt.Sprintf("%s, %v at point %d, edit %v: %s", o.Deed, o.Blow, o.Point, o.Edit, w))
		}
		if !race.Freed && !linearizable(race) {
			wrong = append(wrong, fmt.Sprintf("%s, %v at point %d: what the agents did cannot have been done with a lock", o.Deed, o.Blow, o.Point))
		}
		if testing.Verbose() && len(race.Wrong) > 0 && *seed != 0 {
			t.Logf("%v", race)
		}
	}
}

// takeovers are the kinds of takeovers at a deed, those first that tell most.
func takeovers(deed string) []claimtest.Takeover {
	var all []claimtest.Takeover
	for _, policy := range []claim.Policy{leading(), claimtest.RacePolicy()} {
		for _, edit := range []bool{false, true} {
			for _, blow := range claimtest.Blows {
				all = append(all, claimtest.Takeover{Deed: deed, Blow: blow, Edit: edit, Policy: policy})
			}
		}
	}
	all[3], all[len(claimtest.Blows)] = all[len(claimtest.Blows)], all[3] // an edit among the first
	return all
}

// At whatever point of whatever it does a leader is killed, stands still or is deposed: the
// next one goes on, and no two agents have the task at the same time.
func TestTakeovers(t *testing.T) {
	for _, deed := range slices.Sorted(maps.Keys(claimtest.Deeds)) {
		t.Run(deed, func(t *testing.T) {
			t.Parallel()
			walks := 0
			for i, o := range takeovers(deed) {
				if i >= 4 && !*long || i >= 2 && (testing.Short() || detector.On) {
					break
				}
				points, wrong := takenOver(t, o)
				walks += points
				for _, w := range wrong {
					t.Error(w)
				}
			}
			t.Logf("%d walks", walks)
		})
	}
}
