package daemon_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"dibs/internal/testkit/pgtest"
)

// A member that takes the lead and then cannot read the journal stays a door, and tries again.
func TestJournalAwayWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		db, err := sql.Open("pgx", s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		lock, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock.Exec("LOCK TABLE dibs_" + strings.ReplaceAll(w.tasks, "-", "") + ".claims IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		a.stop()
		time.Sleep(5 * time.Second)
		if err := lock.Rollback(); err != nil {
			t.Fatal(err)
		}
		b.led("b")
		b.mustClaim("Sandman", id)
		b.stop()
	})
}

// A member without permission for the journal ends: if it stood by, it would take the lead again
// and again, and nobody else could.
func TestJournalRefusedWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		space := "dibs_" + strings.ReplaceAll(w.tasks, "-", "")
		for _, statement := range []string{
			// Simulates missing privileges: this server's user has them all.
			"CREATE FUNCTION " + space + ".refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '42501'; END $$",
			"CREATE TRIGGER refuse BEFORE UPDATE ON " + space + ".owed FOR EACH STATEMENT EXECUTE FUNCTION " + space + ".refuse()",
		} {
			if err := s.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		a.stop()
		if err := b.failed(); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("the member: %v; want that it ends with what is wrong with the journal", err)
		}
	})
}
