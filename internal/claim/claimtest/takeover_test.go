package claimtest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/claim/sim"
	"dibs/internal/testkit"
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
				if i >= 4 && !*long || i >= 2 && (testing.Short() || testkit.Race) {
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

// Ways of taking over that do not work. The explorer finds each out by the rule that nothing
// is sent before it is saved, or after the epoch; and those with harm also by what comes of it.
var takeoverMutants = map[string]struct {
	deed   string
	mutate func(*sim.DaemonOptions)
	harm   bool
}{
	"no epoch":                           {"claim", noEpoch, true},
	"sent before it is saved":            {"claim", sentBeforeSaved, true},
	"finished without asking the ledger": {"release", notAsserted, false},
	"renewed without asking the ledger":  {"renewal", notAsserted, false},
	"marked without asking the ledger":   {"withdrawal", notAsserted, false},
	"a clearing sent before it is saved": {"sweep", sentBeforeSaved, true},
	"released a second time at once":     {"release", freedTwice, true},
	"taken off a second time at once":    {"withdrawal", freedTwice, true},
}

func TestTakeoverMutants(t *testing.T) {
	for name, m := range takeoverMutants {
		for _, lenient := range []bool{false, true} {
			if lenient && !m.harm {
				continue
			}
			t.Run(fmt.Sprint(name, ", by its harm: ", lenient), func(t *testing.T) {
				t.Parallel()
				for _, o := range takeovers(m.deed) {
					o.Mutate, o.Lenient = m.mutate, lenient
					if _, wrong := takenOver(t, o); len(wrong) > 0 {
						t.Logf("caught: %s", wrong[0])
						return
					}
				}
				t.Error("survived")
			})
		}
	}
}

// freedTwice frees a task again while the first write that was to may be on its way.
func freedTwice(d *sim.DaemonOptions) {
	d.Cases = slices.DeleteFunc(claim.Protocol(), func(c claim.Case) bool { return strings.HasPrefix(c.Then, "look again, until") })
}

// noEpoch lets a former leader change the ledger.
func noEpoch(d *sim.DaemonOptions) {
	rest := d.Journal
	d.Journal = func(l claim.Ledger) claim.Ledger {
		l = l.(*sim.Term).Ledger
		if rest != nil {
			l = rest(l)
		}
		return l
	}
}

// sentBeforeSaved saves what is to be written to a page only when it was sent.
func sentBeforeSaved(d *sim.DaemonOptions) {
	rest := d.Journal
	d.Journal = func(l claim.Ledger) claim.Ledger { return hastyLedger{rest(l)} }
}

type hastyLedger struct{ claim.Ledger }

func (l hastyLedger) Save(ctx context.Context, ch claim.Change) error {
	writing := slices.ContainsFunc(ch.Holds, func(h claim.Hold) bool { return h.State == claim.Writing })
	clearing := slices.ContainsFunc(ch.Marks, func(m claim.Mark) bool { return m.State == claim.Clearing })
	if !writing && !clearing {
		return l.Ledger.Save(ctx, ch)
	}
	time.AfterFunc(500*time.Millisecond, func() { _ = l.Ledger.Save(context.WithoutCancel(ctx), ch) })
	return nil
}

// notAsserted takes for granted that the ledger takes what is done.
func notAsserted(d *sim.DaemonOptions) {
	rest := d.Journal
	d.Journal = func(l claim.Ledger) claim.Ledger { return trustingLedger{rest(l)} }
}

type trustingLedger struct{ claim.Ledger }

func (l trustingLedger) Save(ctx context.Context, ch claim.Change) error {
	if len(ch.Holds)+len(ch.Marks)+len(ch.Facts) == 0 {
		return nil
	}
	return l.Ledger.Save(ctx, ch)
}
