package doctor_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/apitest"
	"dibs/internal/api/client"
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

		pipe := apitest.NewPipe()
		serving := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			var said any = api.Status{Version: "test", PID: 7, Warnings: []string{}}
			if r.URL.Path == "/v1/cluster" {
				said = api.Cluster{ClusterStatus: api.ClusterStatus{LastError: "the journal's database was restored"}, Members: []api.Member{}}
			}
			if err := json.NewEncoder(rw).Encode(said); err != nil {
				w.Error(err)
			}
		})}
		go serving.Serve(pipe)
		defer serving.Close()
		before := w.options.Daemon
		w.options.Daemon = client.Over("pipe", pipe.Dial)
		finds("journal.state", doctor.Error, "was restored", "dibs cluster adopt")
		w.options.Daemon = before
		say("postgres://postgres:hunter2@127.0.0.1:1/postgres")
		finds("journal", doctor.Error, "refused", "see that PostgreSQL runs")
	})
}
