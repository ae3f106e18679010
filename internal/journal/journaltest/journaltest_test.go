package journaltest_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"
)

// What is made is what the journal makes of no file, byte for byte, and nothing is left
// for it to do.
func TestMake(t *testing.T) {
	dir := t.TempDir()
	made, opened := filepath.Join(dir, "made", "journal.db"), filepath.Join(dir, "opened", "journal.db")
	do(t, journaltest.Make(made))
	before := read(t, made)
	for _, path := range []string{made, opened} {
		j, err := journal.Open(t.Context(), path)
		do(t, err)
		do(t, j.Close())
	}
	if after := read(t, made); !bytes.Equal(before, after) || !bytes.Equal(after, read(t, opened)) {
		t.Error("what is made is not what the journal makes of no file")
	}
	if info, err := os.Stat(made); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
}

func TestMakeLeavesAloneWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	do(t, os.WriteFile(path, []byte("mine"), 0o600))
	if err := journaltest.Make(path); err != nil || string(read(t, path)) != "mine" {
		t.Errorf("%v, and it is %q", err, read(t, path))
	}
}

// read returns the content of a file, without how often it was changed, which SQLite
// counts in two places of it.
func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	do(t, err)
	if len(data) > 100 {
		clear(data[24:28])
		clear(data[92:96])
	}
	return data
}

// ofOpening matches what each opening of a journal makes anew: its mark, when it began, and the id of
// its term.
var ofOpening = regexp.MustCompile(`\(mark,[^)]*\)|\d{4}-\d\d-\d\d [^"]*|\b[A-Z2-7]{26}\b`)

// The tables of a journal that was retired are to the next one as if it had made them.
func TestRetire(t *testing.T) {
	pgtest.Use(t)
	db, err := sql.Open("pgx", pgtest.URL())
	do(t, err)
	defer db.Close()
	schemas := func() (n int) {
		t.Helper()
		do(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname ~ 'dibs'").Scan(&n))
		return n
	}
	// state is what is in the tables of a journal, and the next number of each sequence.
	state := func(path string) (all []string) {
		t.Helper()
		space := "dibs_" + journaltest.Postgres(path).Board
		rows, err := db.QueryContext(t.Context(), `
			SELECT tablename || query_to_xml(format('SELECT t::text FROM %I.%I AS t', schemaname, tablename), true, false, '')::text
			  FROM pg_tables WHERE schemaname = $1
			 UNION ALL
			SELECT sequencename || ' ' || coalesce(last_value::text, 'unused') FROM pg_sequences WHERE schemaname = $1
			 ORDER BY 1`, space)
		do(t, err)
		defer rows.Close()
		for rows.Next() {
			var s string
			do(t, rows.Scan(&s))
			all = append(all, ofOpening.ReplaceAllString(s, ""))
		}
		do(t, rows.Err())
		return all
	}
	open := func(path string) *journal.Journal {
		t.Helper()
		j, err := journaltest.Open(t.Context(), path)
		do(t, err)
		return j
	}
	j := open("first")
	made := state("first")
	now := time.Now()
	hold := claim.Hold{ID: claim.NewID(now), Agent: "Sandman", State: claim.Reserved, Reserved: now, Task: task.Task{ID: "a"}}
	_, _, err = j.Reserve(t.Context(), hold, now, 0)
	fact := claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindGranted, Agent: "Sandman", Task: "a", Claim: hold.ID, Remote: true}
	_, begun := j.BeginRequest(t.Context(), 1, "k", "f", now)
	do(t, errors.Join(err, begun, j.PutTasks(t.Context(), []task.Task{{ID: "a"}}), j.Record(t.Context(), fact), j.SetMeta(t.Context(), "k", "v"), j.Close()))
	if slices.Equal(state("first"), made) {
		t.Error("nothing was written")
	}
	do(t, journaltest.Retire(t.Context(), "first"))
	next := open("next")
	defer next.Close()
	if got := state("next"); !slices.Equal(got, made) {
		t.Errorf("there is %q,\nwant %q", got, made)
	}
	if n := schemas(); n != 1 {
		t.Errorf("%d schemas, want the one that was there", n)
	}
	if err := open("another").Close(); err != nil || schemas() != 2 {
		t.Errorf("%d schemas, %v: want one more", schemas(), err)
	}
}

// do fails the test at once if there was an error.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
