package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Findings is what Probe found out about a database.
type Findings struct {
	Version string
	Took    time.Duration // to connect and get an answer
	Ahead   time.Duration // how far the database's clock is ahead of this machine's, give or take half an answer
	Pooled  bool          // there is a pooler in between
	// Missing has the statements with which an administrator grants the user the rights that it
	// lacks; empty if it has all.
	Missing string
	// Synchronous names the standbys that commits wait for, as synchronous_standby_names does, and
	// Standbys counts those that copy the database now.
	Synchronous string
	Standbys    int
	Made        bool // the tables exist
	Membership       // if they exist and can be read
}

// Probe checks that a database is usable, as Dial does, and who shares the journal in it. It
// changes nothing.
func Probe(ctx context.Context, p Postgres) (found Findings, err error) {
	place, err := newPostgres(p)
	if err != nil {
		return Findings{}, err
	}
	d := &Database{postgres: place, db: place.pool(1, place.patience, false)}
	defer d.db.Close()
	begun := time.Now()
	readers := &pool{DB: d.db, store: place}
	if err := place.check(ctx, readers); err != nil {
		return Findings{}, d.failed(err, "looking at the journal")
	}
	found.Took = time.Since(begun)
	if err := d.greet(ctx, &found); err != nil {
		return found, d.failed(err, "looking at the journal")
	}
	tables, _, err := place.tables(ctx, readers)
	if err == nil {
		found.Made = tables > 0
		found.Missing, err = d.missing(ctx)
	}
	if err != nil || !found.Made || found.Missing != "" {
		return found, d.failed(err, "looking at the journal")
	}
	if _, err := made(ctx, place, readers); err != nil {
		return found, d.failed(err, "looking at the journal")
	}
	found.Membership, err = d.Members(ctx)
	return found, err
}

// greet asks the server for its version and its clock, and whether a pooler is in between. It
// does so in a transaction, to find out whether transactions work.
func (d *Database) greet(ctx context.Context, found *Findings) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var backend uint32
	var now int64
	asked := time.Now()
	err = tx.QueryRowContext(ctx, "SELECT current_setting('server_version'), pg_backend_pid(), "+micros("clock_timestamp()")+
		", current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)").
		Scan(&found.Version, &backend, &now, &found.Synchronous, &found.Standbys)
	if err != nil {
		return err
	}
	found.Ahead = time.UnixMicro(now).Sub(asked.Add(time.Since(asked) / 2))
	return conn.Raw(func(driver any) error {
		// A server that lets a client in names the process that answers; a pooler makes one up.
		found.Pooled = server(driver).PID() != backend
		return nil
	})
}

// missing returns the statements that grant the user the rights that a daemon needs and the
// user lacks. It reads the catalog, and tries nothing.
func (d *Database) missing(ctx context.Context) (statements string, err error) {
	var user string
	var create, schema, usage, mayMake, tables, allTables bool
	err = d.db.QueryRowContext(ctx, `
		SELECT current_user, has_database_privilege(current_database(), 'CREATE'), n.oid IS NOT NULL,
		       coalesce(has_schema_privilege(n.oid, 'USAGE'), false), coalesce(has_schema_privilege(n.oid, 'CREATE'), false),
		       EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = n.oid AND relkind = 'r'),
		       NOT EXISTS (
		           SELECT 1 FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
		            WHERE relnamespace = n.oid AND relkind = 'r' AND NOT has_table_privilege(c.oid, needed))
		  FROM (SELECT $1::text AS name) AS own LEFT JOIN pg_namespace n ON n.nspname = own.name`, d.space).
		Scan(&user, &create, &schema, &usage, &mayMake, &tables, &allTables)
	user = pgx.Identifier{user}.Sanitize()
	switch {
	case err != nil:
		return "", err
	case !schema && !create:
		return fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s;", d.space, user), nil
	case schema && !tables && !(usage && mayMake):
		return fmt.Sprintf("GRANT USAGE, CREATE ON SCHEMA %s TO %s;", d.space, user), nil
	case tables && !(usage && allTables):
		return fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s;", d.space, user), nil
	}
	return "", nil
}
