package journaltest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"dibs/internal/journal"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// spares are the schemas of journals that nobody needs any more, emptied, by server: to make the
// tables of one takes a quarter of a second of processor time.
var spares struct {
	sync.Mutex
	of map[string][]string
}

// Retire says that nobody will open the journal of that path again, and that nobody has it open. If
// it is in PostgreSQL, its tables become those of a later one.
func Retire(ctx context.Context, path string) error {
	p := Postgres(path)
	if p.URL == "" {
		return nil
	}
	db, err := sql.Open("pgx", p.URL)
	if err != nil {
		return err
	}
	defer db.Close()
	name := space(p)
	spare := "spare_" + name
	if _, err := db.ExecContext(ctx, fmt.Sprintf(empty, name, spare)); err != nil {
		return err
	}
	spares.Lock()
	defer spares.Unlock()
	if spares.of == nil {
		spares.of = make(map[string][]string)
	}
	spares.of[p.URL] = append(spares.of[p.URL], spare)
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
	UPDATE %[1]s.leader SET epoch = 0, name = '', since = NULL, until = '-infinity';
	FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = '%[1]s' LOOP
		PERFORM setval(format('%[1]s.%%I', name)::regclass, 1, false);
	END LOOP;
	ALTER SCHEMA %[1]s RENAME TO %[2]s;
END $$`

// reuse makes a spare schema that of a journal, if there is one and the journal has none yet.
func reuse(ctx context.Context, db *sql.DB, p journal.Postgres) error {
	spares.Lock()
	defer spares.Unlock()
	left := spares.of[p.URL]
	if len(left) == 0 {
		return nil
	}
	var there bool
	if err := db.QueryRowContext(ctx, "SELECT to_regnamespace($1) IS NOT NULL", space(p)).Scan(&there); err != nil || there {
		return err
	}
	last := len(left) - 1
	spares.of[p.URL] = left[:last]
	_, err := db.ExecContext(ctx, "ALTER SCHEMA "+left[last]+" RENAME TO "+space(p))
	return err
}
