package config

import (
	"fmt"
	"log/slog"
	"regexp"
	"sync"
)

// Shared reports whether the journal is in PostgreSQL, where several machines may share it.
func (j Journal) Shared() bool { return j.Postgres != "" || j.PostgresFile != "" }

// ReadPostgres returns the address of the database, from the file if it is there.
func (j Journal) ReadPostgres(log *slog.Logger) (Secret, error) {
	if j.Postgres != "" {
		return j.Postgres, nil
	}
	return readSecret("journal.postgres_file", j.PostgresFile, "the address of the database", log)
}

// schemaName matches the beginnings of schema names: what PostgreSQL takes without quotes, with
// room for an id.
var schemaName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,29}$`)
})

func (j Journal) validate() []error {
	if !schemaName().MatchString(j.Schema) {
		return []error{fmt.Errorf("journal.schema: %q: want small letters, digits and _, at most 30, such as dibs", j.Schema)}
	}
	return nil
}
