package claimtest_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/claim/sim"
)

// A mutant is the protocol with one of its parts taken out: by a policy that no
// configuration allows, or by a store, a ledger or clocks that tell the claimer what it
// would see, and write what it would write, without that part.
type mutant struct {
	policy func(*claim.Policy)
	store  func(*sim.Register, claim.Store) claim.Store
	// daemon changes what a daemon is made of, where a store is not enough.
	daemon func(*sim.DaemonOptions)
	// scene is the kind of race in which it shows soonest, and seed that of the race with
	// which to begin; 0 for the first.
	scene claimtest.Scene
	seed  uint64
}

// options are those of the races of a mutant.
func (m mutant) options() claimtest.RaceOptions {
	o := claimtest.RaceOptions{Policy: claimtest.RacePolicy(), Scene: m.scene}
	if m.policy != nil {
		m.policy(&o.Policy)
	}
	switch {
	case m.store != nil:
		o.Mutate = func(reg *sim.Register, d *sim.DaemonOptions) {
			rest := d.Fault
			d.Fault = func(s claim.Store) claim.Store { return m.store(reg, rest(s)) }
		}
	case m.daemon != nil:
		o.Mutate = func(_ *sim.Register, d *sim.DaemonOptions) { m.daemon(d) }
	}
	return o
}

// only lifts the rule that the settle wait has to be longer than the window.
func only(change func(*claim.Policy)) func(*claim.Policy) {
	return func(p *claim.Policy) {
		p.Exclusive = true
		change(p)
	}
}

var mutants = map[string]mutant{
	"no settle wait":               {policy: only(func(p *claim.Policy) { p.Settle = 0 })},
	"settle wait below the window": {policy: only(func(p *claim.Policy) { p.Settle = p.WriteWindow / 2 })},
	"no window check":              {policy: only(func(p *claim.Policy) { p.WriteWindow = time.Minute })},
	"the agent's name as token":    {store: nameAsToken},
	"verifying by query":           {store: verifyByQuery, seed: 36},
	"stale without the minute":     {store: staleAMinuteEarly},
	"any Date believed":            {store: anyDate},

	"window by the monotonic clock alone":     {daemon: monotonicAlone, scene: claimtest.Standing, seed: 32},
	"done by another claim":                   {store: anyDone, scene: claimtest.AtLeaseEnd, seed: 938},
	"sweep reopens although its mark is gone": {store: markNotLookedFor, scene: claimtest.AtLeaseEnd},
	"sweep without a mark":                    {store: noMark, scene: claimtest.AtLeaseEnd},
	"sweep without a settle wait":             {store: noSettleOfMark, scene: claimtest.AtLeaseEnd, seed: 346},
	"renewal without a settle wait":           {store: noSettleOfRenewal, scene: claimtest.AtLeaseEnd, seed: 544},
	"finish past the lease, not renewed":      {daemon: finishNotRenewed, scene: claimtest.AtLeaseEnd, seed: 433},
	"stale without the clock allowance":       {daemon: staleAtOnce, scene: claimtest.AtLeaseEnd, seed: 2751},
	"written before it is journalled":         {daemon: notJournalled, seed: 504},
	"freed twice":                             {daemon: freedTwice},
	"a ledger without epochs":                 {daemon: noEpoch, seed: 42},
	"a case left out":                         {daemon: caseLeftOut, scene: claimtest.AtLeaseEnd, seed: 433},
	"two cases swapped":                       {daemon: casesSwapped, scene: claimtest.AtLeaseEnd},
}

// The suite finds each mutant out. That it finds nothing wrong with the protocol
// itself is what TestEverySchedule and TestRaces are about.
func TestMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught := firstWrong(t, m.options(), max(1, m.seed))
			if caught == "" {
				t.Error("survived")
			}
			t.Logf("caught: %s", caught)
		})
	}
}

// races is how many races have to find a mutant out.
const races = 2_000

// firstWrong runs the explorer, where the policy alone is changed, and races from a seed
// on, and returns the first thing that went wrong.
func firstWrong(t *testing.T, o claimtest.RaceOptions, from uint64) string {
	t.Helper()
	if o.Mutate == nil {
		if _, failures := explored(t, 2, o.Policy); len(failures) > 0 {
			return failures[0]
		}
	}
	for o.Seed = from; o.Seed < from+races; o.Seed++ {
		if wrong := run(t, o).Wrong; len(wrong) > 0 {
			return wrong[0]
		}
	}
	return ""
}
