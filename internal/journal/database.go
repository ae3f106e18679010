package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"dibs/internal/claim"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Database is a PostgreSQL database in which members share a journal. One member leads, for
// a term that it renews, and only it may use the journal. All times are by the database's
// clock. A Database is safe for concurrent use.
type Database struct {
	*postgres
	db *sql.DB
	// lead is for the term alone, so that nobody's questions delay its renewal.
	lead *sql.DB
	// schema is the number of the journal's schema as of the last look at it.
	schema atomic.Int64
}

// Schema returns the number of the journal's schema, as of the last look at it: another one than the
// constant until Lead carries it over, or where a newer member did.
func (d *Database) Schema() int { return int(d.schema.Load()) }

// Dial checks that the database is usable, and creates the journal's tables if they are
// missing.
func Dial(ctx context.Context, p Postgres) (*Database, error) {
	made, err := newPostgres(p)
	if err != nil {
		return nil, err
	}
	return dial(ctx, made)
}

func dial(ctx context.Context, p *postgres) (_ *Database, err error) {
	d := &Database{postgres: p, db: p.pool(2, p.patience, false), lead: p.pool(1, p.patience, false)}
	defer func() {
		if err != nil {
			d.Close()
			err = d.failed(err, "opening the journal")
		}
	}()
	defer time.AfterFunc(p.quiet, func() {
		p.log.Warn("the journal's database keeps this daemon waiting", claim.AttrReason, p.place+": "+adviceSilent)
	}).Stop()
	if err := p.check(ctx, &pool{DB: d.db, store: p}); err != nil {
		return nil, err
	}
	number, err := d.readSchema(ctx)
	if err == nil && number == 0 {
		if err = d.make(ctx); err == nil {
			d.schema.Store(Schema)
		}
	}
	return d, err
}

// readSchema looks at the number of the journal's schema, 0 for none. With a newer one than this
// program's this member is a door.
func (d *Database) readSchema(ctx context.Context) (int, error) {
	number, err := schemaOf(ctx, d, &pool{DB: d.db, store: d})
	if newer, ok := errors.AsType[*NewerError](err); ok {
		if number, err = newer.Number, nil; d.Schema() != number {
			d.log.Warn("this daemon does not lead: a newer one has carried the journal over; install its version here, too", "schema", number, "known", Schema)
		}
	}
	if err == nil {
		d.schema.Store(int64(number))
	}
	return number, err
}

// carryOver carries the journal over to this program's schema if nobody leads, and reports whether it
// has that schema now. The caller makes sure that no member with an older program is there.
func (d *Database) carryOver(ctx context.Context) (bool, error) {
	number, err := d.readSchema(ctx)
	if err != nil || number >= Schema {
		return number == Schema, err
	}
	if number == 0 {
		return false, fmt.Errorf("%s: its tables are gone", d)
	}
	script := ""
	for _, step := range steps[number-1:] {
		script += inPostgres(step[0]) + step[1]
	}
	done := false
	err = d.exclusively(ctx, func(conn *sql.Conn) error {
		var meanwhile string
		err := conn.QueryRowContext(ctx, d.in("SELECT value FROM %s.meta WHERE key = '"+metaSchema+"'")).Scan(&meanwhile)
		if now, _ := strconv.Atoi(meanwhile); err != nil || now > number {
			return err
		}
		// A leader's transactions lock its row.
		var vacant bool
		err = conn.QueryRowContext(ctx, fmt.Sprintf(`
			WITH vacant AS (SELECT 1 FROM %[1]s WHERE %[2]s FOR UPDATE SKIP LOCKED)
			SELECT (EXISTS (SELECT FROM vacant) OR NOT EXISTS (SELECT FROM %[1]s)) AND %[3]s <> ''`, d.leadership(), d.over(), synchronous)).Scan(&vacant)
		if err != nil || !vacant {
			return err
		}
		err = makeTables(ctx, &tx{store: d.postgres, conn: conn}, "SET LOCAL search_path = "+d.space+";\n"+script)
		done = err == nil
		return err
	})
	if err != nil || !done { // the next try finds what another member has done meanwhile
		return false, err
	}
	d.schema.Store(Schema)
	d.log.Info(fmt.Sprintf("the journal was carried over from schema %d to %d", number, Schema))
	return true, nil
}

// leadership names the leader's table, which has another name and fewer columns in schema 1.
func (d *Database) leadership() string {
	if d.Schema() == 1 {
		return d.space + ".leader"
	}
	return d.space + ".leadership"
}

// make creates the tables. Of several members that do so at once, one creates them; the others
// wait for it.
func (d *Database) make(ctx context.Context) error {
	return d.exclusively(ctx, func(conn *sql.Conn) error { return d.makeOn(ctx, conn) })
}

// exclusively runs a change of the tables in a transaction. Of several members one does so at a time.
func (d *Database) exclusively(ctx context.Context, change func(*sql.Conn) error) (err error) {
	db := d.pool(1, making, true)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	name := fnv.New64a()
	name.Write([]byte(d.space))
	if _, err := run(conn, fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d; SELECT pg_advisory_xact_lock(%d)",
		making.Milliseconds()/2, making.Milliseconds(), int64(name.Sum64()))); err != nil {
		return err
	}
	defer func() {
		_, ended := run(conn, map[bool]string{true: "COMMIT", false: "ROLLBACK"}[err == nil])
		err = errors.Join(err, ended)
	}()
	return change(conn)
}

func (d *Database) makeOn(ctx context.Context, conn *sql.Conn) error {
	var there bool
	if err := conn.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", d.space+".meta").Scan(&there); err != nil || there {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", d.space).Scan(&there); err != nil {
		return err
	}
	script := "SET LOCAL search_path = " + d.space + ";\n" + postgresSchema()
	if !there { // this user may lack the right to create the schema: an administrator may have
		script = "CREATE SCHEMA " + d.space + ";\n" + script
	}
	err := makeTables(ctx, &tx{store: d.postgres, conn: conn}, script)
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok && failure.Code == "42501" {
		return fmt.Errorf("%s: the user %s may make no tables there: have an administrator run: CREATE SCHEMA IF NOT EXISTS %s; ALTER SCHEMA %[3]s OWNER TO %[2]s;", d, pgx.Identifier{d.config.User}.Sanitize(), d.space)
	}
	return err
}

// Close closes the connections. Journals opened from d stay open.
func (d *Database) Close() error {
	d.memory.keep(d.space)
	return errors.Join(d.db.Close(), d.lead.Close())
}

// failed says what was being done when err happened, like Journal.failed.
func (d *Database) failed(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, d.explain(err))
}

// over is a condition on the row of the leader: its term is over. A term that ends later than a
// whole one from now was given by another clock, such as that of a server that failed over to
// this one.
func (d *Database) over() string {
	return fmt.Sprintf("(until <= clock_timestamp() OR until > clock_timestamp() + %d * interval '1 ms')", d.term.Milliseconds())
}

// Lead makes a member the leader if nobody leads, and returns its term. The epoch is above all
// earlier ones. It is zero if another member leads, or if a transaction of the former leader is
// still open.
func (d *Database) Lead(ctx context.Context, name string) (t Term, err error) {
	defer func() { err = d.failed(err, "taking the lead") }()
	if can, err := d.carryOver(ctx); err != nil || !can {
		return Term{}, err
	}
	if err := d.look(ctx); err != nil {
		return Term{}, err
	}
	if _, err := d.lead.ExecContext(ctx, d.in(`
		INSERT INTO %s.leadership (epoch, id, name, until)
		SELECT coalesce(max(epoch), 0), '', '', '-infinity' FROM %[1]s.terms
		HAVING NOT EXISTS (SELECT FROM %[1]s.leadership)
		    ON CONFLICT DO NOTHING`)); err != nil {
		return Term{}, err
	}
	// One statement is one transaction: it is over when it is answered. It takes the lead
	// only if the term is over and none of its transactions is open; else it changes nothing
	// and does not wait.
	t.ID = rand.Text()
	conn, err := d.lead.Conn(ctx)
	if err != nil {
		return Term{}, err
	}
	defer conn.Close()
	// A warning of an earlier statement says nothing of this one.
	if err := conn.Raw(func(c any) error { _ = warned(server(c)); return nil }); err != nil {
		return Term{}, err
	}
	err = conn.QueryRowContext(ctx, d.in(`
		WITH taken AS (
		    UPDATE %s.leadership
		       SET epoch = epoch + 1, id = $2, name = $1, since = clock_timestamp(), until = clock_timestamp() + $3 * interval '1 ms'
		     WHERE epoch = (SELECT epoch FROM %[1]s.leadership WHERE `+d.over()+` FOR UPDATE SKIP LOCKED) AND `+synchronous+` <> ''
		       AND EXISTS (SELECT FROM %[1]s.meta WHERE key = '`+metaSchema+`' AND value = '`+strconv.Itoa(Schema)+`')
		    RETURNING epoch, id, since)
		INSERT INTO %[1]s.terms (epoch, id, last, at) SELECT epoch, id, 0, since FROM taken
		RETURNING epoch`), name, t.ID, d.term.Milliseconds()).Scan(&t.Epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return Term{}, nil
	}
	if err == nil { // with a warning, it may be lost
		err = conn.Raw(func(c any) error { return warned(server(c)) })
	}
	if err != nil {
		return Term{}, err
	}
	return t, nil
}

// Renew restarts a term. The error is ErrDeposed if the term is over.
func (d *Database) Renew(ctx context.Context, t Term) error {
	// It changes no key column, so it does not wait for the term's transactions, which hold
	// FOR KEY SHARE.
	result, err := d.lead.ExecContext(ctx, d.in(`
		UPDATE %s.leadership SET until = clock_timestamp() + $3 * interval '1 ms'
		 WHERE epoch = $1 AND id = $2 AND until > clock_timestamp()`), t.Epoch, t.ID, d.term.Milliseconds())
	if err == nil {
		var n int64
		if n, err = result.RowsAffected(); err == nil && n == 0 {
			err = ErrDeposed
		}
	}
	return d.failed(err, "renewing the lead")
}

// Resign ends a term, so that another member can lead at once.
func (d *Database) Resign(ctx context.Context, t Term) error {
	_, err := d.lead.ExecContext(ctx, d.in(`
		UPDATE %s.leadership SET until = clock_timestamp()
		 WHERE epoch = $1 AND id = $2 AND until > clock_timestamp()`), t.Epoch, t.ID)
	return d.failed(err, "giving up the lead")
}

// Introduce announces a member, with what the others need to know of it as JSON. It deletes
// members that have not announced themselves for gone.
func (d *Database) Introduce(ctx context.Context, name string, body []byte, gone time.Duration) error {
	_, err := d.db.ExecContext(ctx, d.in(`
		WITH forgotten AS (DELETE FROM %s.members WHERE seen < clock_timestamp() - $3 * interval '1 ms' AND name <> $1)
		INSERT INTO %[1]s.members (name, body, seen) VALUES ($1, $2, clock_timestamp())
		    ON CONFLICT (name) DO UPDATE SET body = excluded.body, seen = excluded.seen`), name, string(body), gone.Milliseconds())
	return d.failed(err, "announcing this member")
}

// Leave takes a member off the list.
func (d *Database) Leave(ctx context.Context, name string) error {
	_, err := d.db.ExecContext(ctx, d.in("DELETE FROM %s.members WHERE name = $1"), name)
	return d.failed(err, "taking this member off the list")
}

// LocalAddress returns the address, without a port, from which this machine reaches the
// database.
func (d *Database) LocalAddress(ctx context.Context) (host string, err error) {
	defer func() { err = d.failed(err, "asking the database") }()
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	host = "127.0.0.1" // over a Unix socket the database is on this machine
	err = conn.Raw(func(driver any) error {
		if at, ok := server(driver).Conn().LocalAddr().(*net.TCPAddr); ok {
			host = at.AddrPort().Addr().Unmap().String()
		}
		return nil
	})
	return host, err
}

// Member is a member as the database lists it.
type Member struct {
	Name string
	Body []byte // as it introduced itself
	Seen time.Time
}

// Membership is who shares a journal and who leads.
type Membership struct {
	Members []Member // by name
	Leader  string   // empty if none ever led
	Epoch   int64
	Since   time.Time // when the leader took the lead; zero if none ever led
	Over    bool      // the leader's term is over
	Now     time.Time // by the database's clock
	Lost    Span
}

// Members returns the members and the leader. It notices a database that was set back since the last
// call, and notes in it what may be lost.
func (d *Database) Members(ctx context.Context) (s Membership, err error) {
	defer func() { err = d.failed(err, "reading who leads") }()
	if d.Schema() != Schema {
		if _, err := d.readSchema(ctx); err != nil {
			return Membership{}, err
		}
	}
	lost := spanned
	if d.Schema() == 1 {
		lost = "NULL::bigint, NULL::bigint, " + micros("clock_timestamp()")
	} else if err := d.look(ctx); err != nil {
		return Membership{}, err
	}
	var since, from, until sql.NullInt64
	var now int64
	err = d.db.QueryRowContext(ctx, `
		SELECT coalesce(name, ''), coalesce(epoch, 0), `+micros("since")+", coalesce("+d.over()+", true), "+lost+`
		  FROM (SELECT 1) AS one LEFT JOIN `+d.leadership()+` ON true`).
		Scan(&s.Leader, &s.Epoch, &since, &s.Over, &from, &until, &now)
	if err != nil {
		return Membership{}, err
	}
	s.Lost = scanSpan(from, until, now)
	if s.Now = time.UnixMicro(now).UTC(); since.Valid {
		s.Since = time.UnixMicro(since.Int64).UTC()
	}
	s.Members, err = collect(ctx, d.db, func(row scanner) (m Member, err error) {
		var at int64
		err = row.Scan(&m.Name, &m.Body, &at)
		m.Seen = time.UnixMicro(at).UTC()
		return m, err
	}, d.in("SELECT name, body, "+micros("seen")+" FROM %s.members ORDER BY name"))
	return s, err
}

// look compares the database with what this process knows of it, and remembers its last transaction.
// If the database was set back, look notes that in it and ends the term: whoever leads has to start
// again on what is there.
func (d *Database) look(ctx context.Context) error {
	defer func() { d.memory.keep(d.space) }()
	before := d.memory.newest()
	var now known
	var there, last, at sql.NullInt64
	err := d.db.QueryRowContext(ctx, d.in(`
		SELECT coalesce(epoch, 0), coalesce(id, ''), last, `+micros("at")+`,
		       (SELECT last FROM %[1]s.terms WHERE epoch = $1 AND id = $2)
		  FROM (SELECT 1) AS one LEFT JOIN (%[1]s.leadership JOIN %[1]s.terms USING (epoch, id)) ON true`), before.Epoch, before.ID).
		Scan(&now.Epoch, &now.ID, &last, &at, &there)
	if err != nil {
		return err
	}
	if now.last, now.at = last.Int64, at.Int64; before.ID == "" || there.Valid && there.Int64 >= before.last {
		if now.ID != "" {
			d.memory.note(now)
		}
		return nil
	}
	// What is left of the term, or else of those before it, tells from when on something is lost.
	_, err = d.db.ExecContext(ctx, fmt.Sprintf(`
		WITH kept AS (
		    SELECT coalesce(max(at), to_timestamp(0)) AS at, to_timestamp($3 / 1e6) AS known
		      FROM %[1]s.terms WHERE epoch < $1 OR epoch = $1 AND id = $2)
		UPDATE %[1]s.leadership
		   SET lost_from = CASE WHEN lost_until > kept.at THEN least(lost_from, kept.at) ELSE kept.at END,
		       lost_until = greatest(lost_until, clock_timestamp(), known), until = clock_timestamp()
		  FROM kept
		 WHERE (lost_from <= kept.at AND lost_until >= known) IS NOT TRUE AND %[2]s <> ''`, d.space, synchronous), before.Epoch, before.ID, before.at)
	if err == nil {
		d.memory.forget(before, now)
	}
	return err
}

// Meta returns what the leader stored under a key, see Journal.SetMeta; "" for nothing. It is for
// members that do not lead.
func (d *Database) Meta(ctx context.Context, key string) (value string, err error) {
	err = d.db.QueryRowContext(ctx, d.in("SELECT value FROM %s.meta WHERE key = $1"), key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, d.failed(err, "reading what the leader has stored")
}

// Open opens the journal for the leader of a term. Like the function Open, it recovers what the
// last leader left half done.
func (d *Database) Open(ctx context.Context, t Term) (*Journal, error) {
	return open(ctx, newLeader(d.postgres, t))
}

// in fills the name of the journal's schema into a statement.
func (d *Database) in(statement string) string { return fmt.Sprintf(statement, d.space) }

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
	if _, err := schemaOf(ctx, place, readers); err != nil {
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
