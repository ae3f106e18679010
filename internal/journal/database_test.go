package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/testkit/pgtest"
)

// Whoever knows of a later transaction than the database has, whether it leads or not, says from
// when to when something may be lost, and ends the term: the next leader starts on what is there.
func TestDatabaseThatWasSetBack(t *testing.T) {
	for _, tt := range []struct {
		name, change string
		lost         bool
	}{
		{"not at all", "UPDATE %s.terms SET last = last", false},
		{"within the term", "UPDATE %s.terms SET last = last - 1, at = at - interval '10 s'", true},
		{"before the term", "UPDATE %s.leadership SET epoch = 0, id = '', name = '', until = '-infinity'; DELETE FROM %[1]s.terms", true},
		{"and another led since", `UPDATE %s.leadership SET id = 'another''s'; DELETE FROM %[1]s.terms;
			INSERT INTO %[1]s.terms SELECT epoch, id, 7, clock_timestamp() FROM %[1]s.leadership`, true},
	} {
		for _, who := range []string{"the leader", "a door", "whoever is about to lead", "one who comes back"} {
			t.Run(tt.name+", seen by "+who, func(t *testing.T) {
				p := shared(t)
				p.Memory = filepath.Join(t.TempDir(), "b")
				a, b, c := member(t, p, time.Hour, 2*time.Second), member(t, p, time.Hour, 2*time.Second), member(t, p, time.Hour, 2*time.Second)
				old, _ := leads(t, a, "a")
				for _, key := range []string{"k", "l"} {
					do(t, old.SetMeta(t.Context(), key, "v"))
				}
				do(t, errOf(old.Owe(t.Context(), outbox.Intent{ID: "early", Kind: outbox.Creation, At: time.Now().Add(-time.Hour), Key: ""})))
				for _, d := range []*Database{a, b} {
					if s, err := d.Members(t.Context()); err != nil || !s.Lost.Until.IsZero() {
						t.Fatalf("before: %+v, %v", s, err)
					}
				}
				c.change(t, tt.change)
				if who == "one who comes back" {
					for _, d := range []*Database{a, b, c} { // what they know is gone
						d.memory.last = known{}
					}
					b = member(t, p, time.Hour, 2*time.Second)
				}
				seer := map[string]*Database{"the leader": a, "a door": b, "whoever is about to lead": b, "one who comes back": b}[who]
				if who == "whoever is about to lead" && tt.lost {
					c.change(t, "UPDATE %s.leadership SET until = '-infinity'")
				} else if s, err := seer.Members(t.Context()); err != nil || s.Over != tt.lost || s.Lost.Until.IsZero() == tt.lost {
					t.Errorf("Members = %+v, %v; want that something is lost: %v", s, err, tt.lost)
				}
				if !tt.lost {
					check(t, old.SetMeta(t.Context(), "k", "w"))
					return
				}
				wantDeposed(t, old)
				j, _ := leads(t, seer, "b")
				if from, until := j.Lost().Ago(); until > time.Minute || from < until || (from < time.Minute) != (tt.name == "within the term") {
					t.Errorf("the next leader knows of %+v, from %v ago", j.Lost(), from)
				}
				// What is due may have been sent, and what is asked for again may have been made.
				for _, key := range []string{"", "key"} {
					if key != "" {
						do(t, errOf(j.BeginRequest(t.Context(), 1, key, "it", time.Now())))
						do(t, errOf(j.Owe(t.Context(), outbox.Intent{ID: "again", Kind: outbox.Creation, At: time.Now(), UID: 1, Key: key})))
					}
				}
				now := time.Now()
				id := claim.NewID(now.Add(-time.Minute))
				for _, f := range []claim.Fact{{ID: string(id), Claim: id}, {ID: claim.NewFactID(now)}} {
					f.At, f.Kind = now, claim.KindReleased
					do(t, j.Record(t.Context(), f))
				}
				next, err := j.NextOwed(t.Context(), outbox.Creation, time.Now(), 0)
				if err != nil || len(next) != 2 || next[0].State != outbox.Doubted || next[1].State != outbox.Doubted {
					t.Errorf("owed: %+v, %v; want both in doubt", next, err)
				}
				next, err = j.NextOwed(t.Context(), outbox.MeshEntry, now, 0)
				if err != nil || len(next) != 2 || next[0].State != outbox.Doubted || next[1].State != outbox.Due {
					t.Errorf("entries that are owed: %+v, %v; want the one in doubt that may have been sent", next, err)
				}
				// Whoever else finds it does not end the next term, too.
				for _, d := range []*Database{a, b, c} {
					if s, err := d.Members(t.Context()); err != nil || s.Over || s.Lost.Until.IsZero() {
						t.Errorf("afterwards: %+v, %v", s, err)
					}
				}
				check(t, j.SetMeta(t.Context(), "k", "w"))
			})
		}
	}
}

// What is committed is on the disk, whatever the role's settings say, and with the standbys where
// the database says so.
func TestCommitsAreSynchronous(t *testing.T) {
	pgtest.OnlyPostgres(t)
	server := pgtest.Run(t)
	for _, statement := range []string{"CREATE ROLE lazy LOGIN", "GRANT CREATE ON DATABASE postgres TO lazy", "ALTER ROLE lazy SET synchronous_commit = off"} {
		do(t, server.Exec(statement))
	}
	for database, want := range map[string]string{"off": "on", "on": "on", "remote_write": "on", "remote_apply": "remote_apply"} {
		do(t, server.Exec("ALTER DATABASE postgres SET synchronous_commit = "+database))
		for _, role := range []string{"lazy", "postgres"} {
			d := member(t, Postgres{URL: server.URLFor(role), Schema: role, Board: "a"}, time.Hour, 2*time.Second)
			d.change(t, "UPDATE %s.leadership SET until = '-infinity'")
			j, _ := leads(t, d, "a")
			var got string
			err := j.write(t.Context(), func(tx *tx) error {
				return tx.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&got)
			})
			if err != nil || got != want {
				t.Errorf("%s in a database with %s commits with %q, %v; want %q", role, database, got, err, want)
			}
		}
	}
}

// A wait for a standby that is cut off commits here, and perhaps nowhere else. Nothing is answered as
// accepted before a later commit was waited for.
func TestCommitWithoutItsStandby(t *testing.T) {
	pgtest.OnlyPostgres(t)
	server := pgtest.Run(t)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			do(t, server.Exec(statement))
		}
	}
	for _, tt := range []struct {
		end  string // what ends the wait
		back bool   // the standby is there again before long
	}{{"pg_cancel_backend", true}, {"pg_cancel_backend", false}, {"pg_terminate_backend", false}} {
		t.Run(fmt.Sprintf("%s, for long: %v", tt.end, !tt.back), func(t *testing.T) {
			d := member(t, Postgres{URL: server.URL(), Schema: "dibs", Board: "a"}, time.Hour, 2*time.Second)
			d.change(t, "UPDATE %s.leadership SET until = '-infinity'")
			j, led := leads(t, d, "a")
			exec("ALTER SYSTEM SET synchronous_standby_names = 'gone'", "SELECT pg_reload_conf()")
			defer exec("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
			comesTrue(t, func() bool {
				var set string
				return d.db.QueryRowContext(t.Context(), "SHOW synchronous_standby_names").Scan(&set) == nil && set == "gone"
			})
			done, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for n := 0; ; n++ {
					if server.Exec("SELECT " + tt.end + "(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); tt.back && n == 2 {
						server.Exec("ALTER SYSTEM RESET synchronous_standby_names")
						server.Exec("SELECT pg_reload_conf()")
					}
					select {
					case <-done:
						return
					case <-time.After(30 * time.Millisecond):
					}
				}
			}()
			err := j.SetMeta(t.Context(), "k", tt.end)
			if (err == nil) != tt.back || err != nil && (!isUnavailable(err) || errors.Is(err, ErrDeposed)) {
				t.Errorf("SetMeta = %v; want that it is accepted: %v", err, tt.back)
			}
			if isOver(j) == tt.back {
				t.Errorf("the journal is over: %v", isOver(j))
			}
			if !tt.back {
				d.Resign(t.Context(), led)
				if next, err := d.Lead(t.Context(), "b"); err == nil || next.Epoch > 0 {
					t.Errorf("without its standby another leads: %v, %v", next, err)
				}
			}
			close(done)
			<-ended
		})
	}
}

// comesTrue waits for a condition.
func comesTrue(t *testing.T, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("it does not come true")
		}
	}
}
