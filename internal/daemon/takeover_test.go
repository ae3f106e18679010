package daemon_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"dibs/internal/pgtest"
)

// A member that takes the lead and cannot read the journal then stays a door, and tries again.
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

// A member that may not open the journal ends: to stand by would have it take the lead again and
// again, and nobody else would.
func TestJournalRefusedWhileTheLeadIsTaken(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		if err := s.Exec("ALTER TABLE dibs_" + strings.ReplaceAll(w.tasks, "-", "") + ".owed RENAME TO somewhere_else"); err != nil {
			t.Fatal(err)
		}
		a.stop()
		if err := b.failed(); err == nil || !strings.Contains(err.Error(), "owed") {
			t.Errorf("the member ended with %v, want what is wrong with the journal", err)
		}
	})
}
