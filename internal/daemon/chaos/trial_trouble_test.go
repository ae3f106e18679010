package chaos_test

import (
	"context"
	"math/rand/v2"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"
)

// trouble is a fault of the cluster.
type trouble struct {
	name string
	do   func(ctx context.Context, random *rand.Rand)
}

// each causes all troubles once, in random order, and repeats until ctx ends or there were enough
// grants. Between them it waits for some grants.
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

// some returns a short random time.
func (tr *trial) some(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(tr.chaos.brief)))
}

// leader returns the number of the leader, from any daemon that knows it; 0 if none leads, or ctx
// ends.
func (tr *trial) leader(ctx context.Context) int {
	for sleep(ctx, 50*time.Millisecond) {
		for _, p := range tr.daemons[:members] {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			st, err := client.New(p.socket).Cluster(asking)
			cancel()
			for i, m := range st.Members {
				if err == nil && m.Leader {
					return i // they are sorted by name
				}
			}
		}
	}
	return 0
}

// to is a trouble of the daemon that choose locks and returns the number of.
func (tr *trial) to(choose func(context.Context, *rand.Rand) int, name string, do func(ctx context.Context, i int, random *rand.Rand)) trouble {
	return trouble{name, func(ctx context.Context, random *rand.Rand) {
		i := choose(ctx, random)
		defer tr.daemons[i].hurt.Unlock()
		do(ctx, i, random)
	}}
}

// anyone locks a random daemon and returns its number.
func (tr *trial) anyone(_ context.Context, random *rand.Rand) int {
	return tr.oneOf(tr.daemons, random)
}

// member locks a random one of those that share the journal, and returns its number.
func (tr *trial) member(_ context.Context, random *rand.Rand) int {
	return tr.oneOf(tr.daemons[:members], random)
}

func (tr *trial) oneOf(daemons []*process, random *rand.Rand) int {
	i := random.IntN(len(daemons))
	daemons[i].hurt.Lock()
	return i
}

// leading locks the leader and returns its number; 0 if ctx ends.
func (tr *trial) leading(ctx context.Context, _ *rand.Rand) int {
	for {
		i := tr.leader(ctx)
		tr.daemons[i].hurt.Lock()
		if tr.leader(ctx) == i { // still, after its other troubles
			return i
		}
		tr.daemons[i].hurt.Unlock()
	}
}

// cut cuts a way for a time.
func cut(ctx context.Context, w *way, d time.Duration) {
	w.sever(true)
	sleep(ctx, d)
	w.sever(false)
}

// leaderTroubles are troubles of whichever daemon leads.
func (tr *trial) leaderTroubles(ctx context.Context) {
	tr.each(ctx, tr.stream(10), []trouble{
		tr.to(tr.leading, "kills of the leader", func(_ context.Context, i int, _ *rand.Rand) {
			tr.daemons[i].kill()
			tr.daemons[i].start()
		}),
		tr.to(tr.leading, "stops of the leader, longer than its lease", func(ctx context.Context, i int, random *rand.Rand) {
			tr.daemons[i].stop(ctx, tr.beyond+tr.some(random), false)
		}),
		tr.to(tr.leading, "leaders cut off from the database, longer than their lease", func(ctx context.Context, i int, random *rand.Rand) {
			cut(ctx, tr.ways[i], tr.beyond+tr.some(random))
		}),
		tr.to(tr.leading, "leaders cut off from the others", func(ctx context.Context, i int, random *rand.Rand) {
			cut(ctx, tr.gates[i], tr.some(random))
		}),
	})
}

// daemonTroubles are troubles of any daemon.
func (tr *trial) daemonTroubles(ctx context.Context) {
	tr.each(ctx, tr.stream(12), []trouble{
		tr.to(tr.anyone, "kills of daemons", func(_ context.Context, i int, _ *rand.Rand) {
			tr.daemons[i].kill()
			tr.daemons[i].start()
		}),
		tr.to(tr.anyone, "stops of daemons", func(ctx context.Context, i int, random *rand.Rand) {
			tr.daemons[i].stop(ctx, tr.some(random), false)
		}),
		tr.to(tr.member, "daemons cut off from the database", func(ctx context.Context, i int, random *rand.Rand) {
			cut(ctx, tr.ways[i], tr.some(random))
		}),
		tr.to(tr.anyone, "daemons cut off from Notion", func(ctx context.Context, i int, random *rand.Rand) {
			mend := tr.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: tr.from(tr.daemons[i])})
			sleep(ctx, tr.some(random))
			mend()
		}),
	})
}

// databaseTroubles are troubles of the database.
func (tr *trial) databaseTroubles(ctx context.Context) {
	must := func(err error) {
		if err != nil {
			tr.Error(err)
		}
	}
	all := []trouble{
		{"kills of the database", func(ctx context.Context, random *rand.Rand) {
			must(tr.database.Kill())
			sleep(ctx, tr.some(random))
			must(tr.database.Start())
		}},
		{"ends of the database", func(ctx context.Context, random *rand.Rand) {
			must(tr.database.Stop())
			sleep(ctx, tr.some(random))
			must(tr.database.Start())
		}},
		{"stops of the database", func(ctx context.Context, random *rand.Rand) {
			must(tr.database.Freeze())
			sleep(ctx, tr.some(random))
			must(tr.database.Thaw())
		}},
	}
	if tr.failovers > 0 {
		next := tr.failovers
		all = append(all, trouble{"times for a failover", func(ctx context.Context, _ *rand.Rand) {
			if tr.made.Load() >= next {
				tr.failOver(ctx)
				next = tr.made.Load() + tr.failovers
			}
		}})
	}
	tr.each(ctx, tr.stream(11), all)
}
