package chaos_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/emulator"
)

// trouble is something that befalls the cluster.
type trouble struct {
	name string
	do   func(ctx context.Context, random *rand.Rand)
}

// each has all troubles occur once, in some order, and again until ctx ends or enough was
// granted. Between them some claims are granted, however long that takes here.
func (tr *trial) each(ctx context.Context, random *rand.Rand, all []trouble) {
	enough := func() bool { return int(tr.made.Load()) >= tr.claims }
	for round := 0; round == 0 || !enough(); round++ {
		for _, i := range random.Perm(len(all)) {
			for next := tr.made.Load() + tr.between + random.Int64N(tr.between); tr.made.Load() < next; {
				if !sleep(ctx, 20*time.Millisecond) || round > 0 && enough() {
					return
				}
			}
			tr.count(all[i].name)
			all[i].do(ctx, random)
		}
	}
}

// some is a short time.
func (tr *trial) some(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(tr.chaos.brief)))
}

// daemonTroubles are what befalls daemons.
func (tr *trial) daemonTroubles(ctx context.Context) {
	random := tr.stream(10)
	victims := tr.daemons
	if tr.beyond > 0 {
		victims = victims[:len(victims)-1] // the last one stands still for long
	}
	one := func() (int, *process) {
		i := random.IntN(len(victims))
		return i, victims[i]
	}
	leads := func(p *process) bool {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		st, err := client.New(p.socket).Cluster(asking)
		return err == nil && st.Leads
	}
	tr.each(ctx, random, []trouble{
		{"kills of daemons", func(ctx context.Context, random *rand.Rand) {
			_, p := one()
			p.kill()
			p.start()
		}},
		{"kills of the daemon that leads", func(ctx context.Context, _ *rand.Rand) {
			for sleep(ctx, 100*time.Millisecond) { // for a moment none may lead, or only one that is no victim
				if i := slices.IndexFunc(victims, leads); i >= 0 {
					victims[i].kill()
					victims[i].start()
					return
				}
			}
		}},
		{"stops of daemons", func(ctx context.Context, random *rand.Rand) {
			_, p := one()
			p.stop(ctx, tr.some(random), false)
		}},
		{"daemons cut off from etcd", func(ctx context.Context, random *rand.Rand) {
			i, _ := one()
			for _, w := range tr.ways[i] {
				w.Cut()
			}
			sleep(ctx, tr.some(random))
			for _, w := range tr.ways[i] {
				w.Mend()
			}
		}},
		{"daemons cut off from a member of etcd", func(ctx context.Context, random *rand.Rand) {
			i, _ := one()
			w := tr.ways[i][random.IntN(len(tr.members))]
			w.Cut()
			sleep(ctx, tr.some(random))
			w.Mend()
		}},
		{"daemons cut off from Notion", func(ctx context.Context, random *rand.Rand) {
			_, p := one()
			mend := tr.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: tr.from(p)})
			sleep(ctx, tr.some(random))
			mend()
		}},
	})
}

// etcdTroubles are what befalls the members of etcd.
func (tr *trial) etcdTroubles(ctx context.Context) {
	random := tr.stream(11)
	other := func() *arbitertest.Member { return tr.members[random.IntN(len(tr.members))] }
	leader := func() *arbitertest.Member { return arbitertest.Leader(tr.Context(), tr.members) }
	kill := func(m *arbitertest.Member) {
		if m != nil {
			m.Kill()
			sleep(ctx, tr.some(random))
			m.Begin()
		}
	}
	stop := func(m *arbitertest.Member) {
		if m != nil {
			m.Stop()
			sleep(ctx, tr.chaos.brief)
			m.GoOn()
		}
	}
	tr.each(ctx, random, []trouble{
		{"kills of etcd's leader", func(context.Context, *rand.Rand) { kill(leader()) }},
		{"kills of members of etcd", func(context.Context, *rand.Rand) { kill(other()) }},
		{"stops of etcd's leader", func(context.Context, *rand.Rand) { stop(leader()) }},
		{"times without a majority of etcd", func(ctx context.Context, random *rand.Rand) {
			stopped := random.Perm(len(tr.members))[1:]
			for _, i := range stopped {
				tr.members[i].Stop()
			}
			from := tr.now() + 100*time.Millisecond // a signal takes its time
			sleep(ctx, tr.chaos.brief)
			tr.mu.Lock()
			tr.minutes = append(tr.minutes, span{from, tr.now()})
			tr.mu.Unlock()
			for _, i := range stopped {
				tr.members[i].GoOn()
			}
		}},
	})
}

// beyondLeases has the last daemon stand still for longer than a lease, again and again.
func (tr *trial) beyondLeases(ctx context.Context) {
	p, random := tr.daemons[len(tr.daemons)-1], tr.stream(12)
	for round := 0; round == 0 || int(tr.made.Load()) < tr.claims; round++ {
		if !sleep(ctx, 2*time.Second+tr.some(random)) {
			return
		}
		tr.count("stops longer than a lease")
		p.stop(ctx, tr.beyond+tr.some(random), false)
	}
}
