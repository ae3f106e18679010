package journal_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	empty := open(t, filepath.Join(t.TempDir(), "journal.db"))
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
