package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/safefile"
	"dibs/internal/testkit/pgtest"
)

// These promises cannot be watched from outside without cutting the power.
func TestConnectionsAreSetUp(t *testing.T) {
	pgtest.OnlySQLite(t)
	j := opened(t)
	for _, test := range []struct {
		db     querier
		pragma string
		want   string
	}{
		{j.writer.tx, "journal_mode", "wal"},
		{j.writer.tx, "synchronous", "2"}, // FULL
		{j.writer.tx, "fullfsync", "1"},
		{j.writer.tx, "foreign_keys", "1"},
		{j.writer.tx, "auto_vacuum", "2"}, // incremental
		{j.writer.tx, "journal_size_limit", "16777216"},
		{j.writer.tx, "wal_autocheckpoint", "4000"},
		{j.writer.tx, "busy_timeout", "5000"},
		{j.readers, "busy_timeout", "5000"},
		{j.readers, "query_only", "1"},
	} {
		var got string
		do(t, test.db.QueryRowContext(t.Context(), "PRAGMA "+test.pragma).Scan(&got))
		if got != test.want {
			t.Errorf("%s = %s, want %s", test.pragma, got, test.want)
		}
	}
}

// A full disk fails the change, in one line that says what to do, and nothing else.
func TestFullDisk(t *testing.T) {
	pgtest.OnlySQLite(t)
	j := opened(t)
	path := j.Path()
	limit := func(pages int) {
		t.Helper()
		do(t, j.writer.tx.script(fmt.Sprintf("PRAGMA max_page_count = %d", pages)))
	}
	var told []error
	j.Watch(func(why error) { told = append(told, why) })
	limit(1) // no more pages than there are
	err := j.SetMeta(t.Context(), "k", strings.Repeat("v", 1<<16))
	if err == nil {
		t.Fatal("a full disk took more")
	}
	if failed, ok := errors.AsType[*claim.JournalError](err); !ok || failed.RetryAfter <= 0 {
		t.Errorf("%T, want a *claim.JournalError with a time to try again", err)
	}
	if err := j.Trouble(t.Context()); err == nil || !strings.Contains(err.Error(), adviceFull) {
		t.Errorf("trouble: %v", err)
	}
	for _, part := range []string{path, "disk is full", adviceFull} {
		if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not say %q in one line", err, part)
		}
	}
	limit(1 << 20)
	if value, err := j.Meta(t.Context(), "k"); err != nil || value != "" {
		t.Errorf("Meta = %d bytes, %v; want nothing", len(value), err)
	}
	if err := j.SetMeta(t.Context(), "k", "v"); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := j.Trouble(t.Context()); err != nil {
		t.Errorf("trouble with room again: %v", err)
	}
	if len(told) != 2 || told[0] == nil || told[1] != nil {
		t.Errorf("told %v, want the trouble, and that it is over", told)
	}
}

// An error of the file or its disk is a *claim.JournalError that says what to do. An error of a
// statement is not.
func TestWhoseFaultAnErrorIs(t *testing.T) {
	pgtest.OnlySQLite(t)
	j := opened(t)
	path := j.Path()
	if err := j.writer.tx.script("INSERT INTO meta VALUES ('a', 'b', 'c')"); err == nil || isAway(j.failed(err, "trying")) {
		t.Errorf("a statement that is wrong: %v", err)
	}
	if isAway(j.failed(errClosed, "trying")) || j.failed(nil, "trying") != nil {
		t.Error("what is no error of SQLite's is taken for one")
	}
	locked, err := sql.Open("sqlite", path)
	do(t, err)
	defer locked.Close()
	do(t, errOf(locked.Exec("BEGIN IMMEDIATE")))
	do(t, j.writer.tx.script("PRAGMA busy_timeout = 0"))
	if err := j.SetMeta(t.Context(), "k", "v"); !isAway(err) || !strings.Contains(err.Error(), adviceLocked) {
		t.Errorf("while another process has it: %v", err)
	}
	for err, advice := range map[error]string{
		syscall.ENOSPC: adviceFull, &fs.PathError{Err: syscall.EDQUOT}: adviceFull, fs.ErrPermission: adviceUnwritable, new(safefile.Unsafe): adviceUnsafe,
	} {
		if got := Unmade(err); !strings.HasSuffix(got.Error(), advice) || isAway(got) != (advice == adviceFull) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func isAway(err error) bool {
	_, ok := errors.AsType[*claim.JournalError](err)
	return ok
}

// However much is removed, its space is given back.
func TestCompact(t *testing.T) {
	pgtest.OnlySQLite(t)
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(ctx, path)
	do(t, err)
	defer j.Close()
	type space struct{ pages, free int }
	look := func() (s space) {
		t.Helper()
		err := errors.Join(
			j.readers.QueryRowContext(ctx, "PRAGMA page_count").Scan(&s.pages),
			j.readers.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&s.free))
		do(t, err)
		return s
	}
	size := func(suffix string) int64 {
		t.Helper()
		info, err := os.Stat(path + suffix)
		do(t, err)
		return info.Size()
	}
	fill := func() {
		t.Helper()
		const many = 4 * vacuumStep
		for i := range many {
			if err := j.SetMeta(ctx, fmt.Sprint(i), strings.Repeat("v", 5000)); err != nil { // more than a page
				t.Fatal(err)
			}
		}
	}
	empty := look()
	fill()
	full := look()
	do(t, j.writer.tx.script("DELETE FROM meta"))
	do(t, j.Compact(ctx))
	after := look()
	if full.pages < empty.pages+4*vacuumStep || after.pages > empty.pages+1 || after.free != 0 {
		t.Errorf("space = %+v, with much in it %+v, and without it %+v", empty, full, after)
	}
	if file, wal := size(""), size("-wal"); file > 4096*int64(empty.pages+1) || wal != 0 {
		t.Errorf("the file has %d bytes, the WAL %d; want them given back", file, wal)
	}
}

// A reader who takes long keeps nobody waiting.
func TestCompactBesideAReader(t *testing.T) {
	pgtest.OnlySQLite(t)
	j := opened(t)
	do(t, j.SetMeta(t.Context(), "k", "v"))
	reader, err := j.readers.BeginTx(t.Context(), nil)
	do(t, err)
	defer reader.Rollback()
	var value string
	do(t, reader.QueryRowContext(t.Context(), "SELECT value FROM meta WHERE key = 'k'").Scan(&value))
	if err := j.SetMeta(t.Context(), "k", "w"); err != nil { // which the reader does not see
		t.Fatal(err)
	}
	began := time.Now()
	if err := j.Compact(t.Context()); err != nil {
		t.Errorf("Compact: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Compact waited %v for a reader", took)
	}
	var timeout int
	if err := j.writer.tx.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&timeout); err != nil || timeout != 5000 {
		t.Errorf("busy_timeout = %d, %v; want it as it was", timeout, err)
	}
}
