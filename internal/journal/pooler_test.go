package journal

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"
)

// A pooler that hands each transaction to any of its connections keeps nothing between two.
func TestBehindAPooler(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	j := openPostgres(t, pgtest.Pooled(t, pgtest.Run(t), "transaction"))
	callAll(t, j)
	var granted sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			now := time.Now()
			c := claim.Hold{ID: claim.NewID(now), Agent: fmt.Sprint("agent-", i), Task: task.Task{ID: "contended"}, Lease: claim.Lease{Timeout: time.Hour}, Reserved: now}
			_, refusal, err := j.Reserve(t.Context(), c, now, 1)
			if err != nil {
				t.Error(err)
			} else if refusal == nil {
				granted.Store(c.ID, true)
			}
			if _, _, err := j.Live(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n := 0
	granted.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 20 got the task", n)
	}
}

// A pooler ends connections, such as those that were idle for too long, with an error. Nobody is
// refused for that.
func TestPoolerThatEndsConnections(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	where := pgtest.Pooled(t, pgtest.Run(t), "transaction")
	j := openPostgres(t, where)
	console, err := sql.Open("pgx", strings.Replace(where, "/postgres?", "/pgbouncer?default_query_exec_mode=simple_protocol&", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	for what, call := range map[string]func() error{
		"a change":   func() error { return j.SetMeta(t.Context(), "k", "v") },
		"a question": func() error { _, err := j.Meta(t.Context(), "k"); return err },
	} {
		for range 2 {
			for _, command := range []string{"KILL postgres", "RESUME postgres"} {
				if _, err := console.Exec(command); err != nil {
					t.Fatal(err)
				}
			}
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func openPostgres(t *testing.T, where string) *Journal {
	t.Helper()
	database, err := Dial(t.Context(), Postgres{URL: where, Schema: "dibs", Board: "0123456789abcdef0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	epoch, err := database.Lead(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	j, err := database.Open(t.Context(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// Whatever form the database gives its values in, they are read as they are.
func TestDatabaseWithItsOwnForms(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	s := pgtest.Run(t)
	for _, setting := range []string{
		"DateStyle = 'German, DMY'", "IntervalStyle = sql_standard", "TimeZone = 'Asia/Kolkata'", "bytea_output = escape",
		"extra_float_digits = -10", "default_transaction_isolation = serializable",
	} {
		if err := s.Exec("ALTER DATABASE postgres SET " + setting); err != nil {
			t.Fatal(err)
		}
	}
	where := pgtest.Pooled(t, s, "transaction")
	j := openPostgres(t, where)
	callAll(t, j)
	answer := outbox.Answer{Status: 200, Body: []byte(`{"a":"\\x00é"}`)}
	if _, err := j.BeginRequest(t.Context(), 1, "key", "it", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := j.FinishRequest(t.Context(), 1, "key", answer); err != nil {
		t.Fatal(err)
	}
	if got, err := j.BeginRequest(t.Context(), 1, "key", "it", time.Now()); err != nil || got == nil || string(got.Body) != string(answer.Body) {
		t.Errorf("an answer is kept as %+v, %v", got, err)
	}
	found, err := Probe(t.Context(), Postgres{URL: where, Schema: "dibs", Board: "0123456789abcdef0123456789abcdef"})
	if err != nil || found.Leader != "test" || found.Ahead.Abs() > time.Minute || found.Now.Sub(found.Since).Abs() > time.Minute || time.Since(found.Since).Abs() > time.Minute {
		t.Errorf("Probe = %+v, %v", found, err)
	}
}
