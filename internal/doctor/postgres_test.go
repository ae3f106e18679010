package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/doctor"
	"dibs/internal/journal"
	"dibs/internal/pgtest"
)

// A journal in PostgreSQL is looked at where it lies, and not made by that.
func TestJournalInPostgres(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, func(w *world) {
		c := &w.options.Config
		c.Journal.PostgresFile = filepath.Join(w.TempDir(), "db")
		say := func(url string) {
			if err := os.WriteFile(c.Journal.PostgresFile, []byte(url), 0o644); err != nil {
				w.Fatal(err)
			}
		}
		finds := func(check string, level doctor.Level, parts ...string) {
			w.Helper()
			for _, f := range doctor.Run(w.Context(), w.options).Findings {
				said := f.Found + " " + f.Remedy
				if f.Check != check || f.Level != level {
					continue
				}
				for _, part := range parts {
					if !strings.Contains(said, part) {
						w.Errorf("%s: %q does not say %q", check, said, part)
					}
				}
				return
			}
			w.Errorf("%s is not %v", check, level)
		}
		say(s.URL())
		finds("journal", doctor.OK, "the tables are not there yet")
		finds("journal", doctor.OK, "the tables are not there yet") // the first look made none
		finds("journal.postgres_file", doctor.Warning, c.Journal.PostgresFile, "chmod 600")

		database, err := journal.Dial(w.Context(), journal.Postgres{URL: s.URL(), Schema: config.Default().Journal.Schema, Board: c.Databases.Tasks})
		if err != nil {
			w.Fatal(err)
		}
		defer database.Close()
		if _, err := database.Lead(w.Context(), "north"); err != nil {
			w.Fatal(err)
		}
		finds("journal", doctor.OK, "north leads since", "epoch 1")
		say("postgres://postgres:hunter2@127.0.0.1:1/postgres")
		finds("journal", doctor.Error, "refused", "see that PostgreSQL runs")
	})
}
