package journal

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// What to do about the ways in which a PostgreSQL database fails.
const (
	adviceUnreached = "see that PostgreSQL runs and can be reached from here; everything goes on by itself when it is back"
	adviceSilent    = "see that PostgreSQL runs, can be reached from here, and waits for no standby that is gone (synchronous_standby_names); everything goes on by itself when it answers"
	adviceRefused   = "see what journal.postgres, journal.postgres_file or the PG variables say of user, password and database"
	adviceReadOnly  = "it is a copy that cannot be written, or has been made read-only: have journal.postgres lead to the primary server"
	adviceOther     = "set another journal.schema"
	adviceCrowded   = "make room, or raise the limit that PostgreSQL names"
	adviceMany      = "raise max_connections, or the CONNECTION LIMIT of the role or the database: the leader has up to 10 connections, each other member up to 4"
	adviceCancelled = "a statement_timeout of this role or database is too short, or somebody cancels statements: run ALTER ROLE … SET statement_timeout = 0 for dibs's role"
)

const (
	// oldest is the first PostgreSQL version that is supported, in the form of
	// server_version_num.
	oldest = 140000
	// LeadTerm is how long a term lasts unless it is renewed.
	LeadTerm = 8 * time.Second
	// patience is how long the leader waits for an answer of the server. The server in turn
	// aborts a transaction that is idle for as long.
	patience = 2 * time.Second
	// readPatience is the same for reads, which may have to scan much.
	readPatience = 5 * time.Second
	// making is the same for creating the tables, which may have to wait for another member.
	making = 30 * time.Second
	// greeting is the connect timeout.
	greeting = 5 * time.Second
	// quiet is how long Dial says nothing while it waits.
	quiet = 3 * time.Second
)

// What to do about the failures of a leader.
const (
	adviceDeposed = "another member goes on with it; ask again"
	adviceUnsure  = "look at what became of it before doing it again; dibs starts anew on the journal when the database can be reached"
	advicePooler  = "the pooler before it gives no transactions: set its pool_mode to transaction"
	adviceStandby = "see to the standbys that synchronous_standby_names names, and to who cancels waits for them"
	adviceHeld    = "another session keeps it locked: see pg_stat_activity"
)

// Postgres says in which PostgreSQL database a journal lies.
type Postgres struct {
	// URL says where the database is, in a form that libpq takes: a URL, or words KEY=VALUE.
	// The PG… variables, the service file and the password file fill in what it leaves open.
	URL string
	// Schema and Board make up the name of the journal's own schema, so that two boards can
	// share a database. Board is the id of the tasks database.
	Schema, Board string
	// Memory is the path of a file for what this machine knows of the database, so that one that is
	// set back while no member runs is noticed at the next start. Empty for none.
	Memory string
	// Log, if set, gets a line when Dial takes long.
	Log *slog.Logger
}

// postgres is a PostgreSQL database.
type postgres struct {
	config  *pgx.ConnConfig
	space   string // the journal's own schema
	place   string // for people; without a password
	breaker breaker
	memory  memory
	log     *slog.Logger

	rewritten sync.Map // the results of rewrite, by statement

	// Tests make these shorter.
	term, patience, quiet time.Duration
	// blind turns off the check of the epoch in transactions: a test makes sure that this is
	// noticed.
	blind bool
}

// schemaName matches the names allowed for schemas, which go into statements unquoted.
var schemaName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,29}$`)
})

// newPostgres returns the database. It does not connect.
func newPostgres(p Postgres) (*postgres, error) {
	if !schemaName().MatchString(p.Schema) {
		return nil, fmt.Errorf("journal.schema: %q is no name of small letters, digits and _, of 30 at most", p.Schema)
	}
	board := strings.ReplaceAll(strings.ToLower(p.Board), "-", "")
	if !schemaName().MatchString("_" + board[:min(len(board), 29)]) {
		return nil, fmt.Errorf("databases.tasks: %q is no id", p.Board)
	}
	if err := misread(p.URL); err != nil {
		return nil, fmt.Errorf("journal.postgres: %w", err)
	}
	config, err := pgx.ParseConfig(p.URL)
	if err != nil {
		if missing, ok := errors.AsType[*fs.PathError](err); ok { // such as a certificate
			return nil, fmt.Errorf("journal.postgres: %w", missing)
		}
		// The driver's other messages may contain the password.
		return nil, errors.New("journal.postgres: it is no address of a PostgreSQL database, such as " + anAddress + "; PG variables count, too")
	}
	// No prepared statement may outlive its transaction: a pooler hands each transaction to
	// any of its connections.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = greeting
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "dibs"
	}
	made := &postgres{
		config: config, space: p.Schema + "_" + board, memory: memory{path: p.Memory},
		place: fmt.Sprintf("the database %q on %s", config.Database, config.Host),
		term:  LeadTerm, patience: patience, quiet: quiet, log: cmp.Or(p.Log, slog.New(slog.DiscardHandler)),
	}
	made.memory.recall(made.space)
	return made, nil
}

// anAddress is an example of one.
const anAddress = "postgres://dibs@db.example.com/dibs?sslmode=verify-full"

// sslModes are the values of sslmode.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

var (
	foreignScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.]*:`)
	sslMode       = regexp.MustCompile(`(?:^|[?&\s])sslmode\s*=\s*'?([^&\s']*)`)
	badCode       = regexp.MustCompile(`%(?:[^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)`)
)

// misread returns an error for an address that libpq refuses, or reads otherwise than it is meant:
// its password has a character that ends it. It shows nothing of the address.
func misread(address string) error {
	scheme := foreignScheme.FindString(address)
	rest, isURL := strings.CutPrefix(strings.TrimPrefix(address, scheme), "//")
	switch {
	case strings.EqualFold(scheme, "jdbc:"):
		return errors.New("it begins with jdbc:, which is for Java: write " + anAddress)
	case scheme != "" && isURL && scheme != "postgres:" && scheme != "postgresql:":
		return errors.New("it does not begin with postgres://: write " + anAddress)
	case isURL && strings.Contains(rest, "#"):
		return errors.New("it has a #, which ends an address: in a password write %23")
	case isURL && early(rest):
		return errors.New("its password has a character that ends it: write %2F for /, %3F for ?, %40 for @")
	case isURL && badCode.MatchString(rest):
		return errors.New("it has a % that begins no code of two digits: in a password write %25")
	}
	if mode := sslMode.FindStringSubmatch(address); mode != nil && !slices.Contains(sslModes, mode[1]) {
		return errors.New("its sslmode is none of " + strings.Join(sslModes, ", "))
	}
	return nil
}

// early reports whether a / or ? comes before the @ that ends user and password.
func early(rest string) bool {
	end := strings.IndexAny(rest, "/?")
	if end < 0 || strings.Contains(rest[:end], "@") || !strings.Contains(rest[:end], ":") {
		return false
	}
	after := rest[end+1:]
	if rest[end] == '/' {
		after, _, _ = strings.Cut(after, "?")
	} else if _, err := url.Parse("//" + rest[:end]); err == nil {
		return false // a host with a port
	}
	return strings.Contains(after, "@")
}

// pool returns a pool of up to n connections, which connect on first use. The server must begin
// each answer, and go on with it, within limit. If it does not, the read fails, and the breaker
// opens unless mayWait is set, see breaker.fell.
func (p *postgres) pool(n int, limit time.Duration, mayWait bool) *sql.DB {
	config := p.config.Copy()
	fell := p.breaker.fell
	if mayWait {
		fell = func(error) {}
	}
	config.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &watched{Conn: conn, born: p.breaker.age(), fell: fell}, nil
	}
	config.AfterConnect = func(_ context.Context, c *pgconn.PgConn) error {
		c.Conn().(*watched).watch(limit)
		return nil
	}
	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.CustomData()[warning] = n
		}
	}
	stale := func(conn *pgx.Conn) bool {
		w, ok := conn.PgConn().Conn().(*watched)
		return ok && w.born != p.breaker.age()
	}
	db := sql.OpenDB(connector{breaker: &p.breaker, Connector: stdlib.GetConnector(*config,
		stdlib.OptionShouldPing(func(_ context.Context, how stdlib.ShouldPingParams) bool {
			return how.IdleDuration > time.Second && !stale(how.Conn)
		}),
		stdlib.OptionResetSession(func(_ context.Context, conn *pgx.Conn) error {
			if stale(conn) {
				return driver.ErrBadConn
			}
			return nil
		}),
	)})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}

// explain implements store.
func (p *postgres) explain(err error) error {
	if err == nil {
		return nil
	}
	shown := oneLine{fmt.Errorf("%s: %w", p.place, err)}
	_, unconfirmed := errors.AsType[*unconfirmed](err)
	switch _, unsure := errors.AsType[*unsure](err); {
	case unsure:
		return unusable(passing{shown}, adviceUnsure)
	case unconfirmed:
		return unusable(passing{shown}, adviceStandby)
	case errors.Is(err, ErrDeposed):
		return unusable(shown, adviceDeposed)
	}
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok {
		if strings.Contains(failure.Message, "statement pooling") { // PgBouncer's, with a code of class 08
			return fmt.Errorf("%w: %s", shown, advicePooler)
		}
		switch class := failure.Code[:min(2, len(failure.Code))]; {
		case failure.Code == "57014":
			return unusable(passing{shown}, adviceCancelled)
		case class == "08" || class == "57" || failure.Code == "25P03" || failure.Code == "25P04": // it ends, starts, or gave us up
			return unusable(passing{shown}, adviceUnreached)
		case failure.Code == "55P03":
			return unusable(passing{shown}, adviceHeld)
		case failure.Code == "53300": // too many connections
			return unusable(passing{shown}, adviceMany)
		case class == "28" || class == "3D" || failure.Code == "42501":
			return unusable(shown, adviceRefused)
		case failure.Code == "25006":
			return unusable(passing{shown}, adviceReadOnly) // until another server takes over
		case class == "53" || class == "58":
			return unusable(passing{shown}, adviceCrowded)
		}
		return shown
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	failed, network := errors.AsType[net.Error](err)
	switch {
	case !unconnected && (network && failed.Timeout() || errors.Is(err, context.DeadlineExceeded)):
		return unusable(passing{shown}, adviceSilent)
	case unconnected || network || lost(err):
		return unusable(passing{shown}, adviceUnreached)
	}
	return err
}

// passing is a failure that may pass by itself.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing reports whether a failure may pass by itself, so that a later try may succeed.
func Passing(err error) bool {
	_, ok := errors.AsType[passing](err)
	return ok
}

// fault implements store.
func (p *postgres) fault(err error) bool {
	_, refused := errors.AsType[*pgconn.PgError](err)
	_, network := errors.AsType[net.Error](err)
	return refused || network || lost(err) || errors.Is(err, context.DeadlineExceeded)
}

// oneLine shows an error in one line: for several servers the driver's message has several.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }

func (p *postgres) String() string { return p.place }
func (p *postgres) compiles() bool { return false }

func (p *postgres) waiting(ctx context.Context) func() { return claim.Waiting(ctx) }

func (p *postgres) numbers() bool            { return false }
func (p *postgres) foreign() string          { return adviceOther }
func (p *postgres) writes() (*sql.DB, error) { return p.pool(1, p.patience, false), nil }
func (p *postgres) reads() (*sql.DB, error)  { return p.pool(maxReaders, readPatience, true), nil }

// compact does nothing: the server vacuums by itself.
func (p *postgres) compact(context.Context, *writer) error { return nil }

// check checks the server's version.
func (p *postgres) check(ctx context.Context, readers *pool) error {
	var version int
	var name string
	err := readers.DB.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&version, &name)
	if err == nil && version < oldest {
		err = fmt.Errorf("%s is PostgreSQL %s: version %d or newer is needed", p.place, name, oldest/10000)
	}
	return err
}

func (p *postgres) tables(ctx context.Context, readers *pool) (all, meta int, err error) {
	err = readers.DB.QueryRowContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE relname = 'meta')
		  FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
		 WHERE nspname = $1 AND relkind = 'r'`, p.space).Scan(&all, &meta)
	return all, meta, err
}

// rewrite translates a statement from SQLite's dialect to PostgreSQL's: it numbers parameters,
// and puts the schema before the names of tables, because a pooler may lose a search_path.
func (p *postgres) rewrite(statement string) string {
	if made, ok := p.rewritten.Load(statement); ok {
		return made.(string)
	}
	var out strings.Builder
	params, before := 0, ""
	for _, word := range words().FindAllString(statement, -1) {
		switch {
		case word == "?":
			params++
			word = "$" + strconv.Itoa(params)
		case strings.HasPrefix(word, "?"):
			word = "$" + word[1:]
		case beforeTable[strings.ToUpper(before)] && slices.Contains(tableNames(), word):
			out.WriteString(p.space + ".")
		}
		out.WriteString(word)
		if strings.TrimSpace(word) != "" {
			before = word
		}
	}
	made := out.String()
	p.rewritten.Store(statement, made)
	return made
}

var (
	// words splits a statement into quoted texts, names, parameters, and single characters.
	words = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`'(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_]*|\?\d*|\s+|.`)
	})
	// beforeTable has the words that the name of a table may follow.
	beforeTable = map[string]bool{"FROM": true, "JOIN": true, "INTO": true, "UPDATE": true}
	// tableNames has the names of all tables.
	tableNames = sync.OnceValue(func() (names []string) {
		for _, found := range regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`).FindAllStringSubmatch(sqliteSchema, -1) {
			names = append(names, found[1])
		}
		return names
	})
)
