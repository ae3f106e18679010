package journal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/testkit/pgtest"

	"dibs/internal/claim"
	"dibs/internal/journal"
)

func TestInspect(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), journal.FileName)
	if _, err := journal.Inspect(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: err = %v, want that there is none", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the look made a file")
	}
	j := open(t, path)
	event := claim.Fact{ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: time.Now(), Kind: claim.KindCompleted, Agent: "Sandman", Task: "11111111-2222-3333-4444-555555555555"}
	if err := j.Record(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	look := func() {
		t.Helper()
		got, err := journal.Inspect(t.Context(), path)
		if err != nil || len(got.Owed) != 1 || got.Owed[0].Depth != 1 {
			t.Errorf("%+v, err = %v, want one entry owed", got, err)
		}
	}
	look() // while it is open
	crashed := filepath.Join(t.TempDir(), journal.FileName)
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(crashed+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	look()
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the look changed the file, err = %v", err)
	}
	if err := os.WriteFile(path, append(before[:len(before)-4096:len(before)-4096], make([]byte, 4096)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Inspect(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("of a damaged file: err = %v, want one that names it", err)
	}

	// What a daemon that was killed has yet to move into the file stays where it is.
	path = crashed
	before, err = os.ReadFile(path + "-wal")
	if err != nil || len(before) == 0 {
		t.Fatalf("err = %v, want a log of %d bytes to be longer", err, len(before))
	}
	look()
	if after, err := os.ReadFile(path + "-wal"); err != nil || string(after) != string(before) {
		t.Errorf("the look changed what a killed daemon left, err = %v", err)
	}
}
