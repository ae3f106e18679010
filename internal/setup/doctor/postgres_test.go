package doctor_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/cluster"
	"dibs/internal/door/server"
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
		say := func(url string) {
			testkit.Must(w, os.WriteFile(c.Journal.PostgresFile, []byte(url), 0o644))
		}
		finds := func(check string, level doctor.Level, parts ...string) {
			w.Helper()
			for _, f := range doctor.Run(w.Context(), w.options).Findings {
				said := f.Found + " " + f.Remedy
				if f.Check != check || f.Level != level {
					continue
				}
				testkit.Says(w, check, said, parts...)
				return
			}
			w.Errorf("%s is not %v", check, level)
		}
		say(s.URL())
		finds("journal", doctor.OK, "the tables are not there yet")
		finds("journal", doctor.OK, "the tables are not there yet") // the first examination made none
		finds("journal.postgres_file", doctor.Warning, c.Journal.PostgresFile, "chmod 600")

		database := testkit.Got(journal.Dial(w.Context(), journal.Postgres{URL: s.URL(), Schema: config.Default().Journal.Schema, Board: c.Databases.Tasks}))(w)
		defer database.Close()
		testkit.Got(database.Lead(w.Context(), "north"))(w)
		finds("journal", doctor.OK, "north leads since", "epoch 1")
		members := "dibs_" + strings.ReplaceAll(c.Databases.Tasks, "-", "") + ".members"
		testkit.Must(w, s.Exec("INSERT INTO "+members+" (name, body, seen) VALUES ('south', '{}', clock_timestamp() - interval '3 minutes'), ('east', '{}', clock_timestamp())"))
		finds("member", doctor.Warning, "south is away: it was seen last 3m", "start dibs at south")
		finds("journal.clock", doctor.Warning, "ahead of this machine's") // the bubble's clock is in the year 2000

		testkit.Must(w, s.Exec("UPDATE dibs_"+strings.ReplaceAll(c.Databases.Tasks, "-", "")+".leader SET lost_from = now() - interval '1 minute', lost_until = now()"))
		finds("journal.lost", doctor.Warning, "set back", "may be lost")
		standbys := func(names string) { // commits wait for them from then on
			for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
				testkit.Must(w, s.Exec(statement))
			}
		}
		standbys("one")
		finds("journal.standby", doctor.Error, "wait for a standby (one)", "start the standby")
		standbys("")

		pipe := server.NewPipe()
		serving := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			var said any = api.Status{Version: "test", PID: 7, Warnings: []string{}}
			if r.URL.Path == "/v1/cluster" {
				said = api.Cluster{ClusterStatus: api.ClusterStatus{LastError: "the journal's database was restored"}, Members: []api.Member{}}
			}
			testkit.OK(w, json.NewEncoder(rw).Encode(said))
		})}
		go serving.Serve(pipe)
		defer serving.Close()
		before := w.options.Daemon
		w.options.Daemon = client.Over("pipe", pipe.Dial)
		finds("journal.state", doctor.Error, "was restored", "dibs cluster adopt")
		w.options.Daemon = before
		say("postgres://postgres:hunter2@127.0.0.1:1/postgres")
		finds("journal", doctor.Error, "refused", "see that PostgreSQL runs")
	})
}

// If the user lacks privileges, the remedy is a statement for an administrator, and it suffices.
func TestRightsInPostgres(t *testing.T) {
	s := pgtest.Run(t)
	must := func(err error) {
		t.Helper()
		testkit.Must(t, err)
	}
	must(s.Exec(`CREATE ROLE "some one" LOGIN`))
	inWorld(t, func(w *world) {
		c := &w.options.Config
		c.Journal.Postgres = config.Secret(s.URLFor("some one"))
		journalOf := func() doctor.Finding {
			for _, f := range doctor.Run(w.Context(), w.options).Findings {
				if f.Check == "journal" {
					return f
				}
			}
			return doctor.Finding{}
		}
		mend := func(begins string) {
			t.Helper()
			f := journalOf()
			run, ok := strings.CutPrefix(f.Remedy, "have an administrator run: ")
			testkit.Require(t, f.Level == doctor.Error && ok && strings.HasPrefix(run, begins),
				"%+v, want to be told to run %s", f, begins)
			must(s.Exec(run))
			if f := journalOf(); f.Level != doctor.OK {
				t.Errorf("after %s: %+v", run, f)
			}
		}
		space := "dibs_" + strings.ReplaceAll(c.Databases.Tasks, "-", "")
		mend("CREATE SCHEMA " + space)
		must(s.Exec("DROP SCHEMA " + space + "; CREATE SCHEMA " + space))
		mend("GRANT USAGE, CREATE ON SCHEMA " + space)
		must(s.Exec("DROP SCHEMA " + space))
		database, err := journal.Dial(w.Context(), journal.Postgres{URL: s.URL(), Schema: config.Default().Journal.Schema, Board: c.Databases.Tasks})
		must(err)
		database.Close()
		mend("GRANT USAGE ON SCHEMA " + space)
		j, err := journal.Dial(w.Context(), journal.Postgres{URL: s.URLFor("some one"), Schema: config.Default().Journal.Schema, Board: c.Databases.Tasks})
		must(err)
		defer j.Close()
		epoch, err := j.Lead(w.Context(), "north")
		must(err)
		opened, err := j.Open(w.Context(), epoch) // the privileges suffice
		must(err)
		must(opened.Close())
	})
}

// A pooler is recognized; one without transactions is refused.
func TestPoolersOfPostgres(t *testing.T) {
	s := pgtest.Run(t)
	for _, tt := range []struct {
		mode  string
		level doctor.Level
		found string // the end of the finding
		mend  string
	}{
		{"transaction", doctor.OK, "the daemon makes them", ""},
		{"session", doctor.OK, "the daemon makes them", ""},
		{"statement", doctor.Error, "the pooler before it gives no transactions", "set its pool_mode to transaction"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			where := pgtest.Pooled(t, s, tt.mode)
			inWorld(t, func(w *world) {
				w.options.Config.Journal.Postgres = config.Secret(where)
				looked := false
				for _, f := range doctor.Run(w.Context(), w.options).Findings {
					looked = looked || f.Check == "journal"
					if f.Check == "journal" && (f.Level != tt.level || !strings.HasSuffix(f.Found, tt.found) || f.Remedy != tt.mend || (f.Level == doctor.OK) != strings.Contains(f.Found, "through a pooler")) {
						t.Errorf("%+v, want %v, %q and %q", f, tt.level, tt.found, tt.mend)
					}
				}
				testkit.Check(t, looked, "nothing is said of the journal")
			})
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
	database := testkit.Got(journal.Dial(w.Context(), journal.Postgres{URL: s.URL(), Schema: config.Default().Journal.Schema, Board: c.Databases.Tasks}))(t)
	defer database.Close()
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
		for _, f := range doctor.Run(w.Context(), w.options).Findings {
			if f.Check == "leader" {
				return f
			}
		}
		return doctor.Finding{}
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
		c := &w.options.Config
		c.Journal.Postgres = config.Secret(s.URL())
		database := testkit.Got(journal.Dial(w.Context(), journal.Postgres{URL: s.URL(), Schema: config.Default().Journal.Schema, Board: c.Databases.Tasks}))(w)
		defer database.Close()
		testkit.Got(database.Lead(w.Context(), "north"))(w)
		testkit.Must(w, database.Introduce(w.Context(), "north", []byte("{}"), time.Hour))
		want := doctor.Finding{
			Check: "leader", Level: doctor.Error,
			Found: "north leads, and cannot be called: it has published no address", Remedy: "restart dibs at north",
		}
		for _, f := range doctor.Run(w.Context(), w.options).Findings {
			testkit.Check(w, f.Check != "leader" || f == want, "%+v, want %+v", f, want)
			if f.Check == "leader" {
				return
			}
		}
		w.Error("nothing is said of the leader")
	})
}
