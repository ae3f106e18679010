package journal_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/worklog"

	"github.com/google/go-cmp/cmp"
)

// scripts are the migrations, in the order of their numbers.
func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("migrations/*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var out []string
	for i, file := range files {
		if want := fmt.Sprintf("%04d_", i+1); !strings.HasPrefix(filepath.Base(file), want) || filepath.Ext(file) != ".sql" {
			t.Fatalf("%s is not named %s….sql", file, want)
		}
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(script))
	}
	return out
}

// schema is what the file at path consists of, and its version.
func schema(t *testing.T, path string) (objects map[string]string, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query("SELECT name, coalesce(sql, '') FROM sqlite_schema")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	objects = map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		objects[name] = text
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return objects, version
}

func TestMigrateFromEveryVersion(t *testing.T) {
	all := scripts(t)
	empty := newJournal(t)
	want, version := schema(t, empty.Path())
	if version != len(all) {
		t.Errorf("version of a new journal = %d, want %d", version, len(all))
	}
	for from := range all {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			runSQL(t, path, strings.Join(all[:from], "\n")+fmt.Sprintf(";PRAGMA user_version = %d", from))
			j := open(t, path)
			got, version := schema(t, path)
			if version != len(all) {
				t.Errorf("version = %d, want %d", version, len(all))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("schema (-new +migrated):\n%s", diff)
			}
			j = reopen(t, j) // nothing is applied twice
			if err := j.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMigrateKeepsWhatVersion1Holds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	runSQL(t, path, scripts(t)[0]+`
		PRAGMA user_version = 1;
		INSERT INTO claims VALUES ('01KAFQZ0000000000000000001', 'a', 'Oracle', 'held', 0,
			'{"id":"01KAFQZ0000000000000000001","agent":"Oracle","state":"held","timeout":60000000000,
			  "reserved_at":"2026-11-20T09:00:00Z","stale_at":"2026-11-20T09:31:00Z",
			  "task":{"id":"a","title":"T","status":"OPEN","priority":"low","token":"tok","timeout":120000000000}}');
		INSERT INTO reservations VALUES ('a', '01KAFQZ0000000000000000001', 'Oracle', 1795167060000);
		INSERT INTO events (id, at, task_id, agent, claim_id, body) VALUES ('01KAFQZ0000000000000000002', 1795165200000, 'a', 'Oracle', '01KAFQZ0000000000000000001',
			'{"id":"01KAFQZ0000000000000000002","at":"2026-11-20T09:00:00Z","kind":"granted","task":"a"}');
		INSERT INTO outbox (event, log) VALUES (1, 'mesh');`)
	j := open(t, path)

	want := claim.Claim{
		ID: "01KAFQZ0000000000000000001", Agent: "Oracle", State: claim.Held, Timeout: 60e9,
		Reserved: t0, StaleAt: t0.Add(31 * 60e9),
		Task: task.Task{ID: "a", Title: "T", Status: task.Open, Priority: task.Low, Token: "tok", Timeout: 120e9},
	}
	if diff := cmp.Diff([]claim.Claim{want}, live(t, j)); diff != "" {
		t.Errorf("live claims (-want +got):\n%s", diff)
	}
	refusal, err := j.Reserve(t.Context(), attempt("Sandman", "a", t0), t0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&claim.Refusal{Holder: &want}, refusal); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	wantNext(t, j, t0, worklog.Item{
		Entry: claim.Event{ID: "01KAFQZ0000000000000000002", At: t0, Kind: claim.KindGranted, Task: "a"},
		Log:   claim.MeshLog,
	})
	if err := j.PutTasks(t.Context(), []task.Task{want.Task}); err != nil {
		t.Errorf("the mirror of a migrated journal: %v", err)
	}
}
