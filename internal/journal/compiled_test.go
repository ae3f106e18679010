package journal

import (
	"database/sql"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"dibs/internal/journal/inbox"
	"dibs/internal/testkit/pgtest"

	sqlite3 "modernc.org/sqlite/lib"
)

// A prepared statement is compiled once. SQLite compiles it again each time that it runs if the plan
// may depend on the value of a parameter: one behind LIMIT, or one that is compared with the column
// that a partial index compares with a constant.
func TestStatementsAreCompiledOnce(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), FileName)
	j, err := Open(t.Context(), path)
	if err == nil { // to make tables is to compile statements again that are there already
		if err = j.Close(); err == nil {
			j, err = Open(t.Context(), path)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	callAll(t, j)
	callRest(t, j)
	counts := recompiled(t, j.writer.tx.conn)
	for range maxReaders {
		conn, err := j.readers.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for query, n := range recompiled(t, conn) {
			counts[query] += n
		}
	}
	if len(counts) < 100 {
		t.Errorf("only %d statements were found", len(counts))
	}
	for query, n := range counts {
		if n > 0 {
			t.Errorf("compiled %d times more than once: %s", n, query)
		}
	}
}

// callRest calls what callAll leaves out: what happens at a start, once a day, or for reports.
func callRest(t *testing.T, j *Journal) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	var failed []error
	check := func(_ any, err error) { failed = append(failed, err) }
	for range 2 {
		check(nil, j.recover(ctx))
		check(j.Prune(ctx, now.Add(time.Hour)))
		check(j.PruneFeed(ctx, now.Add(time.Hour)))
		check(j.PruneSeen(ctx, now.Add(time.Hour)))
		check(j.PruneInbox(ctx, now.Add(time.Hour)))
		check(j.TaskClaims(ctx, "a"))
		check(j.Earlier(ctx, "a"))
		check(j.Tasks(ctx))
		check(j.Facts(ctx, FactFilter{Since: now, Seen: true}))
		check(j.Feed(ctx, FeedFilter{Task: "a", Agent: "Sandman", Limit: 1}))
		_, err := j.TakeTriggers(ctx, inbox.Take{Agent: "Merlin", Taker: "t", Now: now, At: now, Limit: 1})
		check(nil, err)
	}
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

// recompiled returns how often each prepared statement of a connection was compiled again.
func recompiled(t *testing.T, conn *sql.Conn) map[string]int {
	t.Helper()
	counts, err := reprepared(conn, sqlite3.Xsqlite3_next_stmt, sqlite3.Xsqlite3_sql, sqlite3.Xsqlite3_stmt_status)
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// reprepared asks SQLite itself, because the driver does not tell: it looks into the driver's
// connection. T is SQLite's state of a thread.
func reprepared[T any](conn *sql.Conn, next func(T, uintptr, uintptr) uintptr, text func(T, uintptr) uintptr, status func(T, uintptr, int32, int32) int32) (map[string]int, error) {
	counts := make(map[string]int)
	err := conn.Raw(func(driver any) error {
		c := reflect.ValueOf(driver).Elem()
		db, tls := uintptr(c.FieldByName("db").Uint()), *(*T)(c.FieldByName("tls").Addr().UnsafePointer())
		for s := next(tls, db, 0); s != 0; s = next(tls, db, s) {
			counts[textAt(text(tls, s))] += int(status(tls, s, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0))
		}
		return nil
	})
	return counts, err
}

// textAt returns the text of C at an address.
func textAt(at uintptr) string {
	start := *(**byte)(unsafe.Pointer(&at))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(start), n)) != 0 {
		n++
	}
	return strings.Clone(unsafe.String(start, n))
}
