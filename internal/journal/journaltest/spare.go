package journaltest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"dibs/internal/journal"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// spares are the schemas of journals that nobody needs any more, emptied: to make the tables of one
// takes a quarter of a second of processor time.
var spares struct {
	sync.Mutex
	at   string // the URL of the server
	db   *sql.DB
	left []string
}

// Retire says that nobody will open the journal of that path again, and that nobody has it open. If
// it is in PostgreSQL, its tables become those of a later one. Not for a test in a bubble of synctest:
// one connection to a server serves all calls.
func Retire(ctx context.Context, path string) error {
	p := Postgres(path)
	if p.URL == "" {
		return nil
	}
	spares.Lock()
	defer spares.Unlock()
	if spares.at != p.URL {
		if spares.db != nil {
			spares.db.Close()
		}
		var err error
		if spares.db, err = sql.Open("pgx", p.URL); err != nil {
			return err
		}
		spares.at, spares.left = p.URL, nil
	}
	name := space(p)
	spare := "spare_" + name
	if _, err := spares.db.ExecContext(ctx, fmt.Sprintf(empty, name, spare)); err != nil {
		return err
	}
	spares.left = append(spares.left, spare)
	return nil
}

// space is the name of a journal's schema.
func space(p journal.Postgres) string { return p.Schema + "_" + p.Board }

// empty leaves the tables of the schema %[1]s as they were made, and names it %[2]s. It fails if
// somebody is still at work there, or put something there that journals do not have.
const empty = `DO $$
DECLARE
	name text;
BEGIN
	SET LOCAL lock_timeout = '5s';
	IF EXISTS (SELECT 1 FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
	            WHERE c.relnamespace = '%[1]s'::regnamespace AND NOT tgisinternal) THEN
		RAISE EXCEPTION 'a trigger is left in %[1]s';
	END IF;
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '%[1]s' AND tablename NOT IN ('meta', 'fence', 'leader') LOOP
		EXECUTE format('DELETE FROM %[1]s.%%I', name);
	END LOOP;
	DELETE FROM %[1]s.meta WHERE key <> 'schema';
	UPDATE %[1]s.fence SET last = 0;
	UPDATE %[1]s.leadership SET epoch = 0, name = '', since = NULL, until = '-infinity';
	FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = '%[1]s' LOOP
		PERFORM setval(format('%[1]s.%%I', name)::regclass, 1, false);
	END LOOP;
	ALTER SCHEMA %[1]s RENAME TO %[2]s;
END $$`

// reuse makes a spare schema that of a journal, if there is one and the journal has none yet.
func reuse(ctx context.Context, db *sql.DB, p journal.Postgres) error {
	spares.Lock()
	defer spares.Unlock()
	if spares.at != p.URL || len(spares.left) == 0 {
		return nil
	}
	var there bool
	if err := db.QueryRowContext(ctx, "SELECT to_regnamespace($1) IS NOT NULL", space(p)).Scan(&there); err != nil || there {
		return err
	}
	last := len(spares.left) - 1
	spare := spares.left[last]
	spares.left = spares.left[:last]
	_, err := db.ExecContext(ctx, "ALTER SCHEMA "+spare+" RENAME TO "+space(p))
	return err
}
