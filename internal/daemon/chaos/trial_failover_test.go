package chaos_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit/pgtest"
)

// careless are settings of a database that keeps nothing which it is not told to keep.
var careless = []string{"synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=0"}

// direct is how many members reach the database directly; the others do through a pooler.
const direct = 2

// idle lets callers ask, at each member, after their connections to the database were cut for
// being idle. Nobody may notice. The leader is behind the pooler.
func (tr *trial) idle() {
	for _, p := range tr.daemons { // they come to know the leader
		for began := tr.now(); tr.now()-began < comesUp && sleep(tr.Context(), 50*time.Millisecond); {
			if _, err := client.New(p.socket).Log(tr.Context(), api.LogFilter{}); err == nil {
				break
			}
		}
	}
	for i, p := range tr.daemons {
		c, text, call := client.New(p.socket), fmt.Sprint("idle-", i), tr.now()
		sleep(tr.Context(), 1400*time.Millisecond)
		_, err := c.Send(tr.Context(), api.MessageRequest{From: "Ada", To: "Bob", Text: text}, text)
		for silent(err) && tr.now()-call < comesUp { // connecting anew takes a busy machine longer
			_, err = c.Send(tr.Context(), api.MessageRequest{From: "Ada", To: "Bob", Text: text}, text)
		}
		if err == nil {
			tr.accepted(text, call)
			if _, err = c.Log(tr.Context(), api.LogFilter{}); silent(err) {
				err = nil
			}
		}
		if err != nil {
			tr.complain("a request at daemon %d while nothing happens: %v", p.number, err)
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
func (tr *trial) space() string { return "dibs_" + strings.ReplaceAll(tr.chaos.tasks, "-", "") }

// admits returns from when to when the journal admits that things may be lost, and whether that is
// about the last failover. It complains if it is about none.
func (tr *trial) admits() (s span, last bool) {
	var from, until sql.NullInt64
	const micros = "(extract(epoch FROM %s) * 1000000)::bigint"
	err := ask(tr.database, fmt.Sprintf("SELECT "+micros+", "+micros+" FROM %s.leader", "lost_from", "lost_until", tr.space()), &from, &until)
	if err != nil {
		tr.Error(err)
	}
	if !until.Valid {
		return s, false
	}
	s = span{time.UnixMicro(from.Int64).Sub(tr.began), time.UnixMicro(until.Int64).Sub(tr.began)}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if known := slices.Contains(tr.spans, s); known || s.to > tr.promoted && tr.promoted > 0 && s.from >= tr.kept {
		return s, !known
	}
	tr.bad = append(tr.bad, fmt.Sprintf("the journal admits a loss from %v to %v; the last failover was at %v, and nothing before %v is lost", s.from, s.to, tr.promoted, tr.kept))
	return s, false
}

// failOver lets a standby take over that lacks the last moments: in them another member has become
// the leader, and has granted tasks. Then the journal has to admit that.
func (tr *trial) failOver(ctx context.Context) {
	must := func(err error) {
		tr.Helper()
		if err != nil {
			tr.Fatal(err)
		}
	}
	tr.turning.Lock()
	defer tr.turning.Unlock()
	tr.count("failovers to a standby that lagged")
	tr.admits()
	feed := newWay(tr, tr.database.Address())
	standby, err := tr.database.Standby(feed.address())
	must(err)
	tr.Cleanup(func() { must(standby.Remove()) })
	must(standby.Start())
	var written string
	must(ask(tr.database, "SELECT pg_current_wal_lsn()", &written))
	for behind := true; behind && sleep(ctx, 20*time.Millisecond); {
		must(ask(standby, "SELECT pg_last_wal_replay_lsn() < '"+written+"'", &behind))
	}
	feed.sever(true)

	i := tr.leading(ctx, nil)
	p := tr.daemons[i]
	defer p.hurt.Unlock()
	p.end(syscall.SIGTERM)
	began, enough := tr.now(), tr.made.Load()+5
	for tr.made.Load() < enough && tr.now()-began < noticing && sleep(ctx, 20*time.Millisecond) {
	}
	must(tr.database.Kill())
	var promoted bool
	must(ask(standby, "SELECT pg_promote()", &promoted))
	var kept int64
	must(ask(standby, fmt.Sprintf("SELECT (extract(epoch FROM max(at)) * 1000000)::bigint FROM %s.terms", tr.space()), &kept))
	tr.database = standby
	tr.mu.Lock()
	tr.kept, tr.promoted = time.UnixMicro(kept).Sub(tr.began), tr.now()
	tr.mu.Unlock()
	tr.at.lead(standby.Address())
	p.start()
	for tr.now()-tr.promoted < noticing && sleep(ctx, 100*time.Millisecond) {
		if s, last := tr.admits(); last {
			tr.mu.Lock()
			tr.spans = append(tr.spans, s)
			tr.mu.Unlock()
			tr.Logf("what was accepted from %v to %v may be lost", s.from, s.to)
			return
		}
	}
	tr.complain("nobody has noticed in %v that the database was set back", noticing)
}

// noticing is how long it may take until a database that was set back is noticed, on a busy machine.
const noticing = time.Minute
