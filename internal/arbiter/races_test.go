package arbiter_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/task"
)

var (
	long = flag.Bool("long", false, "run 20,000 races: takes its time")
	seed = flag.Uint64("seed", 0, "run only the race of this seed, and tell what happened in it")
)

// policy is that of the members of a cluster: they do not wait for a page to settle.
func policy() claim.Policy {
	p := claimtest.RacePolicy()
	p.Settle, p.Arbitrated = 0, true
	return p
}

// cluster makes the daemons of each race the members of one cluster.
type cluster struct {
	// table, if set, stands between each member and the table.
	table func(*claimsim.DaemonOptions, *arbitersim.Table) arbiter.Table
	// member, if set, stands between each daemon and what decides for it.
	member func(claimsim.Arbitration) claimsim.Arbitration
	// machine, if set, is the table as it is seen from the machine of a member; else it is one
	// that stands still when the daemon does, and no further away than that.
	machine func(arbiter.Table, *claimsim.Store) arbiter.Table
	tables  map[*claimsim.Register]*arbitersim.Table
}

func (c *cluster) join(reg *claimsim.Register, o *claimsim.DaemonOptions) {
	if c.tables == nil {
		c.tables = make(map[*claimsim.Register]*arbitersim.Table)
	}
	if c.tables[reg] == nil {
		c.tables[reg] = arbitersim.NewTable()
	}
	table := arbiter.Table(c.tables[reg])
	if c.table != nil {
		table = c.table(o, c.tables[reg])
	}
	stay, name := o.Policy.Stay(), o.Name
	machine := c.machine
	o.Arbitrate = func(l claim.Ledger, s *claimsim.Store) claimsim.Arbitration {
		table := table
		if machine != nil {
			table = machine(table, s)
		} else {
			table = arbitersim.On(table, arbitersim.Machine{GoOn: s.GoOn})
		}
		a := claimsim.Arbitration(arbiter.NewLedger(arbiter.Config{
			Ledger: l, Table: table, Member: name, Cluster: func() string { return "sim" },
			Stay: stay, Now: s.Now, Clocks: s.Instant,
		}))
		if c.member != nil {
			a = c.member(a)
		}
		return a
	}
}

func race(t *testing.T, c *cluster, o claimtest.RaceOptions) (r claimtest.Race) {
	t.Helper()
	o.Policy, o.Mutate = policy(), c.join
	synctest.Test(t, func(t *testing.T) {
		r = claimtest.RunRace(t.Context(), o)
		time.Sleep(time.Minute) // what is still on its way to the table arrives
	})
	return r
}

// troubled draws what goes wrong on a member's way to the table, for as long as a race goes on.
func troubled(o *claimsim.DaemonOptions, t *arbitersim.Table) arbiter.Table {
	r := rand.New(rand.NewPCG(o.Seed, 9))
	began := time.Now()
	f := arbitersim.Faults{Seed: o.Seed, Slow: time.Duration(r.IntN(3)) * 900 * time.Millisecond, Lost: r.IntN(3) * 4}
	from, lasts := time.Duration(r.Int64N(int64(5*time.Minute))), time.Duration(r.Int64N(int64(3*time.Minute)))
	f.Away = func() bool {
		since := time.Since(began)
		return since >= from && since < from+lasts
	}
	if o.Name == "late" {
		f = arbitersim.Faults{}
	}
	return arbitersim.Faulty(t, f)
}

// What the protocol keeps with a settle wait, a cluster keeps without one: whatever goes
// wrong, with Notion and on the way to the table, no two agents of any members have a task at
// the same time, and in the end nothing is left undone.
func TestRaces(t *testing.T) {
	for name, table := range map[string]func(*claimsim.DaemonOptions, *arbitersim.Table) arbiter.Table{"sound": nil, "troubled": troubled} {
		if *seed != 0 {
			r := race(t, &cluster{table: table}, claimtest.RaceOptions{Seed: *seed, Scene: claimtest.Scene(*seed % 3)})
			t.Log(name, r)
			for _, w := range r.Wrong {
				t.Error(w)
			}
			continue
		}
		n := uint64(400)
		switch {
		case *long:
			n = 20_000
		case testing.Short():
			n = 100
		}
		for shard := range uint64(4) {
			t.Run(fmt.Sprint(name, " ", shard), func(t *testing.T) {
				t.Parallel()
				for s := 1 + shard; s <= n; s += 4 {
					for _, w := range race(t, &cluster{table: table}, claimtest.RaceOptions{Seed: s, Scene: claimtest.Scene(s % 3)}).Wrong {
						t.Errorf("seed %d: %s", s, w)
					}
				}
			})
		}
	}
}

// A sweep and a claim that meet at a task with a stale claim do not both write, whenever the
// claim comes; if the sweep does not ask for the task, they do.
func TestSweepMeetsClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		asks  bool
		wrong bool
	}{"as it is": {asks: true}, "a sweep that does not ask": {wrong: true}} {
		t.Run(name, func(t *testing.T) {
			wrong := 0
			for d := time.Duration(0); d < 2*time.Second; d += 100 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					granted, page := sweepMeetsClaim(t, d, tt.asks)
					if granted != nil && (page.Token != string(granted.ID) || page.Status != task.InProgress) {
						wrong++
					}
				})
			}
			if tt.wrong != (wrong > 0) {
				t.Errorf("%d times the task of a claim that was granted was given to somebody else", wrong)
			}
		})
	}
}

func sweepMeetsClaim(t *testing.T, after time.Duration, asks bool) (granted *claim.Claim, page task.Task) {
	stale := task.Task{ID: taskOne, Title: "Mend the roof", Status: task.InProgress, ClaimedBy: "Ghost", ClaimedAt: time.Now().Add(-2 * time.Hour)}
	stale.Token = string(claim.NewID(stale.ClaimedAt))
	register := claimsim.NewRegister(stale)
	c := &cluster{}
	daemon := func(name string, latencies ...time.Duration) *claimsim.Daemon {
		o := claimsim.DaemonOptions{Policy: policy(), StoreOptions: claimsim.StoreOptions{Name: name, Latency: func(*rand.Rand) claimsim.Delay {
			if len(latencies) == 0 {
				return claimsim.Delay{}
			}
			d := claimsim.Delay{Before: latencies[0]}
			latencies = latencies[1:]
			return d
		}}}
		c.join(register, &o)
		return register.Daemon(o)
	}
	if !asks {
		c.member = func(a claimsim.Arbitration) claimsim.Arbitration {
			return altered{a, func(_ context.Context, cl *claim.Claim) (bool, error) { return cl.Sweep != nil, nil }}
		}
	}
	sweeper, claimer := daemon("sweeper", 0, 1500*time.Millisecond), daemon("claimer", 0, 200*time.Millisecond)
	defer sweeper.Close()
	defer claimer.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _, _ = sweeper.Sweep(t.Context(), taskOne) })
	both.Go(func() {
		time.Sleep(after)
		if cl, err := claimer.Claim(t.Context(), claim.Request{Agent: agentA, Task: stale}); err == nil {
			granted = &cl
		}
	})
	both.Wait()
	return granted, register.Page(taskOne)
}
