package daemon_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/journal"
	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// standing is the resources of an idle daemon.
type standing struct {
	goroutines, files int
	heap              int64
	rows              map[string]int
	pages, free       int   // the journal's file
	wal               int64 // bytes of its WAL
}

func (s standing) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d bytes, rows %v, %d pages, %d of them free, WAL %d bytes", s.goroutines, s.files, s.heap, s.rows, s.pages, s.free, s.wal)
}

// wants checks that nothing has grown.
func (s standing) wants(t *testing.T, after standing) {
	t.Helper()
	if after.goroutines > s.goroutines+2 {
		t.Errorf("%d goroutines, %d before:\n%s", after.goroutines, s.goroutines, stacks())
	}
	// The pool may have opened other connections to the journal.
	if after.files > s.files+6 {
		t.Errorf("%d open files, %d before", after.files, s.files)
	}
	if after.heap > s.heap+1<<20 {
		t.Errorf("%d bytes in use, %d before", after.heap, s.heap)
	}
	if diff := cmp.Diff(s.rows, after.rows); diff != "" {
		t.Errorf("rows of the journal (-before +after):\n%s", diff)
	}
	if after.free > 0 || after.pages > s.pages+4 || after.wal > soakWAL {
		t.Errorf("the journal has %d pages, %d of them free, and a WAL of %d bytes; %d pages before", after.pages, after.free, after.wal, s.pages)
	}
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// measure deletes everything, waits until nothing is owed or kept, and measures what is left.
func (s *soak) measure() standing {
	s.w.Helper()
	all := func(emulator.Page) bool { return true }
	s.tidy(all)
	s.sync()
	time.Sleep(soakQuiet)
	for range 2 { // a reader may keep the WAL until the journal is next pruned
		if wal := s.wal(); wal > soakWAL {
			s.w.Logf("the WAL has %d bytes", wal)
			time.Sleep(time.Hour)
		}
	}
	s.tidy(all) // the last log entries
	status := s.node.status()
	if status.Mirror.Tasks != 0 || status.ClaimsHeld != 0 || status.Outbox.Depth != 0 {
		s.w.Errorf("after a quiet time there are %d tasks, %d claims and %d entries to deliver", status.Mirror.Tasks, status.ClaimsHeld, status.Outbox.Depth)
	}
	s.w.notion.ResetRequests()
	// Longer than idle HTTP connections and the emulator's past last; and between the times of all
	// regular work.
	time.Sleep(10*time.Minute + 7*time.Second)
	s.w.notion.ResetRequests()
	s.transport.CloseIdleConnections() // their number depends on chance
	synctest.Wait()
	// runtime.NumGoroutine may count some that have just ended.
	running := strings.Count("\n"+stacks(), "\ngoroutine ")
	m := standing{goroutines: running, files: openFiles(s.w.T), heap: heap()}
	s.journal(&m)
	return m
}

// journal measures the journal.
func (s *soak) journal(m *standing) {
	s.w.Helper()
	path := filepath.Join(s.node.dir, journal.FileName)
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		s.w.Fatal(err)
	}
	defer db.Close()
	read := func(query string, into any) {
		s.w.Helper()
		if err := db.QueryRow(query).Scan(into); err != nil {
			s.w.Fatal(err)
		}
	}
	var tables string
	read("PRAGMA page_count", &m.pages)
	read("PRAGMA freelist_count", &m.free)
	read("SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'", &tables)
	m.rows = make(map[string]int)
	// What is left of an abandoned attempt is watched for a day, because its write may still land,
	// and its claim stays as long. After that both stay until the next pruning.
	recent := fmt.Sprintf("ended > %d", time.Now().Add(-soakKeep-time.Hour).UnixMilli())
	unseen := "ended = 0 AND json_extract(body, '$.state') = 'unseen'"
	watched := fmt.Sprintf("(%s OR id IN (SELECT id FROM marks WHERE %s OR %s))", recent, unseen, recent)
	for table := range strings.SplitSeq(tables, ",") {
		var n int
		query := "SELECT count(*) FROM " + table
		switch table {
		case "claims":
			query += " WHERE NOT " + watched
		case "marks":
			query += fmt.Sprintf(" WHERE NOT (%s OR %s)", unseen, recent)
		case "requests":
			query += " WHERE made IS NULL OR made NOT IN (SELECT id FROM claims WHERE " + watched + ")"
		}
		read(query, &n)
		m.rows[table] = n
	}
	m.wal = s.wal()
}

// wal returns the size of the journal's WAL in bytes.
func (s *soak) wal() int64 {
	s.w.Helper()
	info, err := os.Stat(filepath.Join(s.node.dir, journal.FileName) + "-wal")
	if err != nil {
		s.w.Fatal(err)
	}
	return info.Size()
}

// openFiles returns how many files this process has open, if that is known.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
