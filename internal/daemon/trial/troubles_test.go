package trial_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit/pgtest"
	"dibs/internal/testkit/referee"
)

// careless are settings of a database that keeps nothing which it is not told to keep.
var careless = []string{"synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=0"}

// direct is how many members reach the database directly; the others do through a pooler.
const direct = 2

// idle lets callers ask, at each member, after their connections to the database were cut for
// being idle. Nobody may notice. The leader is behind the pooler.
func (tr *trial) idle() {
	for _, p := range tr.daemons { // they come to know the leader
		for began := time.Now(); time.Since(began) < comesUp && sleep(tr.Context(), 50*time.Millisecond); {
			if _, err := client.Do(tr.Context(), client.New(p.socket), api.OpLog, api.LogInput{}); err == nil {
				break
			}
		}
	}
	for i, p := range tr.daemons {
		c, text, call := client.New(p.socket), fmt.Sprint("idle-", i), time.Now()
		sleep(tr.Context(), 1400*time.Millisecond)
		_, err := client.Do(tr.Context(), c, api.OpSend, api.Keyed(text, api.MessageRequest{From: "Ada", To: "Bob", Text: text}))
		for silent(err) && time.Since(call) < comesUp { // connecting anew takes a busy machine longer
			_, err = client.Do(tr.Context(), c, api.OpSend, api.Keyed(text, api.MessageRequest{From: "Ada", To: "Bob", Text: text}))
		}
		if err == nil {
			tr.Accepted(text, call)
			if _, err = client.Do(tr.Context(), c, api.OpLog, api.LogInput{}); silent(err) {
				err = nil
			}
		}
		if err != nil {
			tr.Complain("a request at daemon %d while nothing happens: %v", p.number, err)
		}
	}
}

// silent reports whether a daemon says that its journal has not answered in time.
func silent(err error) bool {
	return err != nil && strings.Contains(err.Error(), "has not answered for a second")
}

// ask reads a row from a database.
func ask(s *pgtest.Server, query string, values ...any) error {
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRow(query).Scan(values...)
}

// space is the journal's schema.
func (tr *trial) space() string { return "dibs_" + strings.ReplaceAll(tr.board, "-", "") }

// admits returns from when to when the journal admits that things may be lost, and whether that is
// about the last failover. It complains if it is about none.
func (tr *trial) admits() (s referee.Span, last bool) {
	var from, until sql.NullInt64
	const micros = "(extract(epoch FROM %s) * 1000000)::bigint"
	err := ask(tr.database, fmt.Sprintf("SELECT "+micros+", "+micros+" FROM %s.leadership", "lost_from", "lost_until", tr.space()), &from, &until)
	if err != nil {
		tr.Error(err)
	}
	if !until.Valid {
		return s, false
	}
	s = referee.Span{From: time.UnixMicro(from.Int64), To: time.UnixMicro(until.Int64)}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if known := slices.Contains(tr.spans, s); known || s.To.After(tr.promoted) && !tr.promoted.IsZero() && !s.From.Before(tr.kept) {
		return s, !known
	}
	tr.Complain("the journal admits a loss from %v to %v; the last failover was at %v, and nothing before %v is lost", s.From, s.To, tr.promoted, tr.kept)
	return s, false
}

// failOver lets a standby take over that lacks the last moments: in them another member has become
// the leader, and has granted tasks. Then the journal has to admit that.
func (tr *trial) failOver(ctx context.Context) {
	tr.turning.Lock()
	defer tr.turning.Unlock()
	tr.count("failovers to a standby that lagged")
	tr.admits()
	feed := newWay(tr, tr.database.Address())
	standby, err := tr.database.Standby(feed.address())
	tr.must(err)
	tr.Cleanup(func() { tr.must(standby.Remove()) })
	tr.must(standby.Start())
	var written string
	tr.must(ask(tr.database, "SELECT pg_current_wal_lsn()", &written))
	for behind := true; behind && sleep(ctx, 20*time.Millisecond); {
		tr.must(ask(standby, "SELECT pg_last_wal_replay_lsn() < '"+written+"'", &behind))
	}
	feed.sever(true)

	i := tr.leading(ctx, nil)
	p := tr.daemons[i]
	defer p.hurt.Unlock()
	p.end(syscall.SIGTERM)
	began, enough := time.Now(), tr.made.Load()+5
	for tr.made.Load() < enough && time.Since(began) < noticing && sleep(ctx, 20*time.Millisecond) {
	}
	tr.must(tr.database.Kill())
	var promoted bool
	tr.must(ask(standby, "SELECT pg_promote()", &promoted))
	var last int64
	tr.must(ask(standby, fmt.Sprintf("SELECT (extract(epoch FROM max(at)) * 1000000)::bigint FROM %s.terms", tr.space()), &last))
	tr.database = standby
	tr.mu.Lock()
	tr.kept, tr.promoted = time.UnixMicro(last), time.Now()
	tr.mu.Unlock()
	tr.at.lead(standby.Address())
	p.start()
	for time.Since(tr.promoted) < noticing && sleep(ctx, 100*time.Millisecond) {
		if s, last := tr.admits(); last {
			tr.mu.Lock()
			tr.spans = append(tr.spans, s)
			tr.mu.Unlock()
			tr.Lose(s)
			tr.Logf("what was accepted from %v to %v may be lost", s.From, s.To)
			return
		}
	}
	tr.Complain("nobody has noticed in %v that the database was set back", noticing)
}

// noticing is how long it may take until a database that was set back is noticed, on a busy machine.
const noticing = time.Minute

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
	return time.Duration(random.Int64N(int64(tr.brief)))
}

// leader returns the number of the leader, from any daemon that knows it; 0 if none leads, or ctx
// ends.
func (tr *trial) leader(ctx context.Context) int {
	for sleep(ctx, 50*time.Millisecond) {
		for _, p := range tr.daemons[:members] {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			st, err := client.Do(asking, client.New(p.socket), api.OpCluster, struct{}{})
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
	all := []trouble{
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
			p := tr.daemons[i]
			mend := tr.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: func(r *http.Request, _ []byte) bool { return r.Host == p.host }})
			sleep(ctx, tr.some(random))
			mend()
		}),
	}
	if canBendClocks {
		all = append(all,
			tr.to(tr.anyone, "clock jumps", func(_ context.Context, i int, random *rand.Rand) {
				to := []time.Duration{0, 2 * time.Second, 20 * time.Second, 3 * time.Minute, 2 * time.Hour, 48 * time.Hour}[random.IntN(6)]
				if random.IntN(2) == 0 {
					to = -to
				}
				if err := tr.daemons[i].jump(to-tr.daemons[i].off(), 0); err != nil {
					tr.Error(err)
				}
			}),
			tr.to(tr.anyone, "clocks that stand still", func(ctx context.Context, i int, random *rand.Rand) {
				tr.daemons[i].stop(ctx, 3*time.Second+tr.some(random), true)
			}))
	}
	if tr.outlasts > 0 {
		stranger := func(context.Context, *rand.Rand) int {
			tr.daemons[members].hurt.Lock()
			return members
		}
		all = append(all, tr.to(stranger, "stops longer than a claim's lease", func(ctx context.Context, i int, random *rand.Rand) {
			tr.daemons[i].stop(ctx, tr.outlasts+tr.some(random), false)
		}))
	}
	tr.each(ctx, tr.stream(12), all)
}

// clocksAreRight reports whether no daemon's clock is wrong: then times in answers are, too.
func (tr *trial) clocksAreRight() bool {
	return !slices.ContainsFunc(tr.daemons, func(p *process) bool { return p.off() != 0 })
}

// databaseTroubles are troubles of the database.
func (tr *trial) databaseTroubles(ctx context.Context) {
	all := []trouble{
		{"kills of the database", func(ctx context.Context, random *rand.Rand) {
			tr.must(tr.database.Kill())
			sleep(ctx, tr.some(random))
			tr.must(tr.database.Start())
		}},
		{"ends of the database", func(ctx context.Context, random *rand.Rand) {
			tr.must(tr.database.Stop())
			sleep(ctx, tr.some(random))
			tr.must(tr.database.Start())
		}},
		{"stops of the database", func(ctx context.Context, random *rand.Rand) {
			tr.must(tr.database.Freeze())
			sleep(ctx, tr.some(random))
			tr.must(tr.database.Thaw())
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
