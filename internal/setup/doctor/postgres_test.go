package doctor_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/cluster"
	"dibs/internal/journal"
	"dibs/internal/setup/doctor"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// A journal in PostgreSQL is examined without being created.
func TestJournalInPostgres(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, func(w *world) {
		c := &w.options.Config
		c.Journal.PostgresFile = filepath.Join(w.TempDir(), "db")
		say := func(url string) { testkit.Must(w, os.WriteFile(c.Journal.PostgresFile, []byte(url), 0o644)) }
		say(s.URL())
		w.finds("journal", doctor.OK, "the tables are not there yet")
		w.finds("journal", doctor.OK, "the tables are not there yet") // the first examination made none
		w.finds("journal.postgres_file", doctor.Warning, c.Journal.PostgresFile, "chmod 600")

		database := w.dial(s.URL())
		testkit.Got(database.Lead(w.Context(), "north"))(w)
		w.finds("journal", doctor.OK, "north leads since", "epoch 1")
		members := w.space() + ".members"
		testkit.Must(w, s.Exec("INSERT INTO "+members+" (name, body, seen) VALUES ('south', '{}', clock_timestamp() - interval '3 minutes'), ('east', '{}', clock_timestamp())"))
		w.finds("member", doctor.Warning, "south is away: it was seen last 3m", "start dibs at south")
		w.finds("journal.clock", doctor.Warning, "ahead of this machine's") // the bubble's clock is in the year 2000

		testkit.Must(w, s.Exec("UPDATE "+w.space()+".leadership SET lost_from = now() - interval '1 minute', lost_until = now()"))
		w.finds("journal.lost", doctor.Warning, "set back", "may be lost")
		standbys := func(names string) { // commits wait for them from then on
			for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
				testkit.Must(w, s.Exec(statement))
			}
		}
		standbys("one")
		w.finds("journal.standby", doctor.Error, "wait for a standby (one)", "start the standby")
		standbys("")

		before := w.options.Daemon
		stop := w.serve(&api.Status{Version: "test", PID: 7, Warnings: []string{}})
		w.finds("journal.state", doctor.Error, "was restored", "dibs adopt")
		stop()
		w.options.Daemon = before
		say("postgres://postgres:hunter2@127.0.0.1:1/postgres")
		w.finds("journal", doctor.Error, "refused", "see that PostgreSQL runs")
	})
}

// If the user lacks privileges, the remedy is a statement for an administrator, and it suffices.
func TestRightsInPostgres(t *testing.T) {
	s := pgtest.Run(t)
	testkit.Must(t, s.Exec(`CREATE ROLE "some one" LOGIN`))
	inWorld(t, func(w *world) {
		w.options.Config.Journal.Postgres = config.Secret(s.URLFor("some one"))
		mend := func(begins string) {
			w.Helper()
			f := find(doctor.Run(w.Context(), w.options), "journal")
			run, ok := strings.CutPrefix(f.Remedy, "have an administrator run: ")
			testkit.Require(w, f.Level == doctor.Error && ok && strings.HasPrefix(run, begins), "%+v, want to be told to run %s", f, begins)
			testkit.Must(w, s.Exec(run))
			w.finds("journal", doctor.OK)
		}
		space := w.space()
		mend("CREATE SCHEMA " + space)
		testkit.Must(w, s.Exec("DROP SCHEMA "+space+"; CREATE SCHEMA "+space))
		mend("GRANT USAGE, CREATE ON SCHEMA " + space)
		testkit.Must(w, s.Exec("DROP SCHEMA "+space))
		w.dial(s.URL())
		mend("GRANT USAGE ON SCHEMA " + space)
		j := w.dial(s.URLFor("some one"))
		opened := testkit.Got(j.Open(w.Context(), testkit.Got(j.Lead(w.Context(), "north"))(w)))(w) // the privileges suffice
		testkit.Must(w, opened.Close())
	})
}

// space is the schema of the journal, and dial connects to it.
func (w *world) space() string {
	return "dibs_" + strings.ReplaceAll(w.options.Config.Databases.Tasks, "-", "")
}

func (w *world) dial(url string) *journal.Database {
	w.Helper()
	d := testkit.Got(journal.Dial(w.Context(), journal.Postgres{URL: url, Schema: config.Default().Journal.Schema, Board: w.options.Config.Databases.Tasks}))(w)
	w.Cleanup(func() { d.Close() })
	return d
}

// A pooler is recognized; one without transactions is refused.
func TestPoolersOfPostgres(t *testing.T) {
	s := pgtest.Run(t)
	for mode, want := range map[string][]string{
		"transaction": {"through a pooler", "the daemon makes them"}, "session": {"through a pooler", "the daemon makes them"},
		"statement": {"the pooler before it gives no transactions", "set its pool_mode to transaction"},
	} {
		where := pgtest.Pooled(t, s, mode)
		inWorld(t, func(w *world) {
			w.options.Config.Journal.Postgres = config.Secret(where)
			w.finds("journal", map[bool]doctor.Level{true: doctor.Error, false: doctor.OK}[mode == "statement"], want...)
		})
	}
}

// The leader's address is tried, unless this machine's own daemon leads.
func TestWayToTheLeader(t *testing.T) {
	s := pgtest.Run(t)
	w, end := newWorld(t) // in real time: a bubble's clock stops while a socket listens
	defer end()
	c := &w.options.Config
	c.Journal.Postgres = config.Secret(s.URL())
	database := w.dial(s.URL())
	testkit.Got(database.Lead(w.Context(), "north"))(t)
	dir := w.TempDir()
	m := testkit.Got(cluster.New(w.Context(), cluster.Config{Database: database, Name: "north", Dir: dir, Log: slog.New(slog.DiscardHandler)}))(t)
	l := testkit.Got(m.Listen(w.Context(), "127.0.0.1:0", ""))(t)
	l = m.Secure(l)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn) // completes its side of the handshake
		}
	}()
	running, stop := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(running) }()
	defer func() { stop(); <-ended }()
	leader := func() (f doctor.Finding) {
		for {
			if now, err := database.Members(w.Context()); err != nil || len(now.Members) == 1 {
				break
			}
		}
		return find(doctor.Run(w.Context(), w.options), "leader")
	}
	if f := leader(); f.Level != doctor.OK || !strings.Contains(f.Found, "north answers at "+l.Addr().String()) {
		t.Errorf("from another machine: %+v", f)
	}
	before := c.StateDir
	c.StateDir = w.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(c.StateDir, "member.pem"), []byte("no key"), 0o600))
	if f := leader(); f.Level != doctor.Error || !strings.Contains(f.Found, "could not be tried") || !strings.Contains(f.Remedy, c.StateDir) {
		t.Errorf("with a key that is none: %+v", f)
	}
	if c.StateDir = dir; leader() != (doctor.Finding{}) {
		t.Errorf("from its own: %+v", leader())
	}
	c.StateDir = before
	l.Close()
	if f := leader(); f.Level != doctor.Error || !strings.Contains(f.Found, "cannot be reached at "+l.Addr().String()) || !strings.Contains(f.Remedy, "cluster.advertise at north") {
		t.Errorf("without a way: %+v", f)
	}
}

// A leader without a published address cannot be called; the network is not at fault.
func TestLeaderWithoutAddress(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, func(w *world) {
		w.options.Config.Journal.Postgres = config.Secret(s.URL())
		database := w.dial(s.URL())
		testkit.Got(database.Lead(w.Context(), "north"))(w)
		testkit.Must(w, database.Introduce(w.Context(), "north", []byte("{}"), time.Hour))
		w.finds("leader", doctor.Error, "north leads, and cannot be called: it has published no address restart dibs at north")
	})
}
