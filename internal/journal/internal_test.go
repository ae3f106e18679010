package journal

import (
	"database/sql"
	"path/filepath"
	"testing"
)

// These promises cannot be watched from outside without cutting the power.
func TestConnectionsAreSetUp(t *testing.T) {
	j, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, test := range []struct {
		db     *sql.DB
		pragma string
		want   string
	}{
		{j.writer, "journal_mode", "wal"},
		{j.writer, "synchronous", "2"}, // FULL
		{j.writer, "fullfsync", "1"},
		{j.writer, "foreign_keys", "1"},
		{j.writer, "busy_timeout", "5000"},
		{j.readers, "busy_timeout", "5000"},
		{j.readers, "query_only", "1"},
	} {
		var got string
		if err := test.db.QueryRowContext(t.Context(), "PRAGMA "+test.pragma).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("%s = %s, want %s", test.pragma, got, test.want)
		}
	}
}

// A COMMIT that fails leaves SQLite's transaction open; it must not stay so.
func TestFailedCommitIsRolledBack(t *testing.T) {
	j, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	err = j.write(t.Context(), func(tx *sql.Conn) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO reservations VALUES ('a', 'no such claim', 'Sandman', 0)")
		if err != nil {
			t.Errorf("the foreign key was checked before COMMIT: %v", err)
		}
		return err
	})
	if err == nil {
		t.Error("a reservation without a claim was committed")
	}
	if err := j.SetMeta(t.Context(), "k", "v"); err != nil {
		t.Errorf("the next transaction: %v", err)
	}
}
