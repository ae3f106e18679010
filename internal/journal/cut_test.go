package journal

import (
	"bufio"
	"database/sql"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/testkit/pgtest"
)

// Connections end at any time: a pooler cuts those that are idle, an administrator ends sessions.
// Nobody is refused for that.
func TestConnectionsThatAreCut(t *testing.T) {
	server := shared(t).URL
	way := newProxy(t, server)
	admin, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for name, cut := range map[string]func() error{
		"by a pooler": func() error { way.cut(); return nil },
		"by the server": func() error {
			_, err := admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cut'")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := shared(t)
			p.URL = way.url + "&application_name=cut"
			d := member(t, p, time.Hour, 2*time.Second)
			j, led := leads(t, d, "a")
			for what, call := range map[string]func() error{
				"a change":        func() error { return j.SetMeta(t.Context(), "k", "v") },
				"a question":      func() error { _, err := j.Meta(t.Context(), "k"); return err },
				"a renewal":       func() error { return d.Renew(t.Context(), led) },
				"a look":          func() error { _, err := d.Members(t.Context()); return err },
				"an announcement": func() error { return d.Introduce(t.Context(), "a", []byte("{}"), time.Hour) },
			} {
				for range 2 {
					for _, db := range []*sql.DB{d.db, j.readers.DB} { // all connections are in use, just now
						var all sync.WaitGroup
						for range maxReaders {
							all.Go(func() { db.ExecContext(t.Context(), "SELECT pg_sleep(0.01)") })
						}
						all.Wait()
					}
					if err := cut(); err != nil {
						t.Fatal(err)
					}
					if err := call(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
		})
	}
}

// Who waits for a server that does not answer, because a standby that it waits for is gone, is told
// so, and what to do.
func TestSlowStartIsTold(t *testing.T) {
	if pgtest.URL() == "" {
		t.Skip("this is about PostgreSQL")
	}
	server := pgtest.Run(t)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if err := server.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec("ALTER SYSTEM SET synchronous_standby_names = 'gone'", "SELECT pg_reload_conf()")
	said, told := io.Pipe()
	made, err := newPostgres(Postgres{URL: server.URL(), Schema: "dibs", Board: "a", Log: slog.New(slog.NewTextHandler(told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	made.quiet = 100 * time.Millisecond
	result := make(chan error, 1)
	go func() {
		d, err := dial(t.Context(), made)
		if err == nil {
			err = d.Close()
		}
		told.Close()
		result <- err
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.Contains(line, "synchronous_standby_names") || !strings.Contains(line, "postgres") {
		t.Errorf("it says %q, %v", line, err)
	}
	exec("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	if err := <-result; err != nil {
		t.Error(err)
	}
}
