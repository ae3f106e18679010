package journal_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/journal"
	"dibs/internal/testkit/pgtest"
)

const (
	oneBoard     = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	anotherBoard = "11111111-2bbb-81b6-9700-e18108a40b1f"
	password     = "hunter2-is-no-good"
)

// strict makes a server ask for passwords, and for TLS with a certificate for localhost; it
// returns the file of the authority.
func strict(t *testing.T, s *pgtest.Server) (authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	do(t, err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	do(t, err)
	encoded, err := x509.MarshalECPrivateKey(key)
	do(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	s.Set("ssl=on", "ssl_cert_file="+pgtest.Write(t, s, "cert.pem", public),
		"ssl_key_file="+pgtest.Write(t, s, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})),
		"hba_file="+pgtest.Write(t, s, "hba.conf", []byte("local all postgres trust\nhost all postgres 127.0.0.1/32 trust\nhostssl all all all scram-sha-256\n")))
	do(t, s.Stop())
	do(t, s.Start())
	authority = filepath.Join(t.TempDir(), "authority.pem")
	do(t, os.WriteFile(authority, public, 0o644))
	return authority
}

// The database is found, and its users log in, as with libpq. If that fails, the error says in one
// line what to do, and never contains the password.
func TestPostgresIsReached(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	s := pgtest.Run(t)
	authority := strict(t, s)
	_, port, err := net.SplitHostPort(s.Address())
	do(t, err)
	for _, statement := range []string{
		"CREATE ROLE dibs LOGIN PASSWORD '" + password + "'", "CREATE ROLE guest LOGIN PASSWORD '" + password + "'",
		"GRANT CREATE ON DATABASE postgres TO dibs",
	} {
		do(t, s.Exec(statement))
	}
	passfile := filepath.Join(t.TempDir(), "pgpass")
	do(t, os.WriteFile(passfile, []byte("*:*:*:dibs:"+password+"\n"), 0o600))
	at := "localhost:" + port
	full := "?sslmode=verify-full&sslrootcert=" + authority
	for name, test := range map[string]struct {
		url  string
		env  map[string]string
		want []string // of the error; none for success
	}{
		"a URL":              {url: "postgres://dibs:" + password + "@" + at + "/postgres" + full},
		"words":              {url: "host=localhost port=" + port + " user=dibs dbname=postgres sslmode=verify-full sslrootcert=" + authority + " password=" + password},
		"a password file":    {url: "postgres://dibs@" + at + "/postgres" + full, env: map[string]string{"PGPASSFILE": passfile}},
		"variables":          {url: "postgres://", env: map[string]string{"PGHOST": "localhost", "PGPORT": port, "PGUSER": "dibs", "PGPASSWORD": password, "PGDATABASE": "postgres", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": authority}},
		"another name":       {url: "postgres://dibs:" + password + "@127.0.0.1:" + port + "/postgres" + full, want: []string{"certificate", "127.0.0.1"}},
		"an unknown issuer":  {url: "postgres://dibs:" + password + "@" + at + "/postgres?sslmode=verify-full", want: []string{"certificate"}},
		"without TLS":        {url: "postgres://dibs:" + password + "@" + at + "/postgres?sslmode=disable", want: []string{"no encryption", "journal.postgres"}},
		"a wrong password":   {url: "postgres://dibs:wrong-" + password + "@" + at + "/postgres" + full, want: []string{"password authentication failed", "journal.postgres"}},
		"no such database":   {url: "postgres://dibs:" + password + "@" + at + "/nowhere" + full, want: []string{`"nowhere"`, "journal.postgres"}},
		"nobody there":       {url: "postgres://dibs:" + password + "@localhost:1/postgres", want: []string{"refused", "see that PostgreSQL runs"}},
		"no such machine":    {url: "postgres://dibs:" + password + "@nowhere.invalid/postgres", want: []string{"nowhere.invalid", "see that PostgreSQL runs"}},
		"a bad code":         {url: "postgres://dibs:" + password + "%zz@" + at, want: []string{"journal.postgres", "%25"}},
		"may make no schema": {url: "postgres://guest:" + password + "@" + at + "/postgres" + full, want: []string{"guest", `CREATE SCHEMA IF NOT EXISTS dibs_111111112bbb81b69700e18108a40b1f; ALTER SCHEMA dibs_111111112bbb81b69700e18108a40b1f OWNER TO "guest";`}},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			board := oneBoard
			if strings.Contains(test.url, "guest") {
				board = anotherBoard // whose schema nobody has made
			}
			err := opens(t, journal.Postgres{URL: test.url, Schema: "dibs", Board: board})
			if len(test.want) == 0 {
				check(t, err)
				return
			}
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if said := err.Error(); strings.Contains(said, password) || strings.Contains(said, "\n") {
				t.Errorf("it holds the password, or more than one line: %q", said)
			}
		})
	}

	// What an administrator is told to run is enough.
	do(t, s.Exec("CREATE SCHEMA dibs_111111112bbb81b69700e18108a40b1f; ALTER SCHEMA dibs_111111112bbb81b69700e18108a40b1f OWNER TO guest"))
	check(t, opens(t, journal.Postgres{URL: "postgres://guest:" + password + "@" + at + "/postgres" + full, Schema: "dibs", Board: anotherBoard}))
}

// opens finds the database, and makes the journal's tables there if need be.
func opens(t *testing.T, p journal.Postgres) error {
	t.Helper()
	database, err := journal.Dial(t.Context(), p)
	if err != nil {
		return err
	}
	return database.Close()
}

// lead opens a journal as its first leader.
func lead(t *testing.T, p journal.Postgres) (*journal.Journal, error) {
	t.Helper()
	database, err := journal.Dial(t.Context(), p)
	if err != nil {
		return nil, err
	}
	defer database.Close()
	epoch, err := database.Lead(t.Context(), "test")
	if err != nil {
		return nil, err
	}
	j, err := database.Open(t.Context(), epoch)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Boards that share a database know nothing of each other.
func TestTwoBoardsInOneDatabase(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	s := pgtest.Run(t)
	var journals []*journal.Journal
	for _, board := range []string{oneBoard, anotherBoard} {
		j, err := lead(t, journal.Postgres{URL: s.URL(), Schema: "dibs", Board: board})
		do(t, err)
		defer j.Close()
		journals = append(journals, j)
	}
	c := grant(t, journals[0], attempt("Sandman", "a", t0), t0)
	if got := live(t, journals[0]); len(got) != 1 {
		t.Errorf("the board's own claims: %v", got)
	}
	if got := live(t, journals[1]); len(got) > 0 {
		t.Errorf("the other board has %v", got)
	}
	grant(t, journals[1], attempt("Oracle", c.Task.ID, t0), t0) // it has another task of that id
}

// Of an address that cannot be meant, the wrong part is named. All others are tried. No error shows
// the password, wherever it comes from.
func TestAddresses(t *testing.T) {
	const secret = "hush"
	passfile := filepath.Join(t.TempDir(), "pass")
	do(t, os.WriteFile(passfile, []byte("*:*:*:*:"+secret+"\n"), 0o600))
	t.Setenv("PGPASSWORD", secret)
	t.Setenv("PGPASSFILE", passfile)
	for address, want := range map[string]string{
		"postgres://dibs:hush#1@127.0.0.1:1/dibs":                                     "write %23",
		"postgres://dibs:1#hush@127.0.0.1:1/dibs":                                     "write %23",
		"postgres://dibs:hush/1@127.0.0.1:1/dibs":                                     "write %2F",
		"postgres://dibs:12/hush@127.0.0.1:1/dibs":                                    "write %2F",
		"postgres://dibs:hush?1@127.0.0.1:1/dibs":                                     "%3F",
		"postgres://dibs:hush%@127.0.0.1:1/dibs":                                      "write %25",
		"postgres://dibs:hush%zz@127.0.0.1/dibs":                                      "write %25",
		"postgres://dibs:hush@127.0.0.1:1/dibs?sslmode=requiered":                     "its sslmode is none of disable, allow,",
		"host=127.0.0.1 password=hush sslmode=full":                                   "its sslmode is none of disable, allow,",
		"jdbc:postgresql://127.0.0.1:1/dibs?password=hush":                            "for Java",
		"mysql://dibs:hush@127.0.0.1:1/dibs":                                          "postgres://",
		"postgres://dibs:hush@127.0.0.1:port/dibs":                                    "no address of a PostgreSQL database",
		"postgres://dibs:hush@[::1/dibs":                                              "",
		"host=127.0.0.1 port=1 password='hush":                                        "",
		"host=127.0.0.1 port=1 password='hush'":                                       "see that PostgreSQL runs",
		"host=127.0.0.1 port=1":                                                       "see that PostgreSQL runs",
		"postgres://dibs:hush@127.0.0.1:1,127.0.0.1:2/dibs":                           "see that PostgreSQL runs",
		"postgres://dibs:hush@127.0.0.1:1/dibs?sslmode=verify-full&sslrootcert=/none": "",
		"postgres://dibs:hush%2F%23@127.0.0.1:1/dibs":                                 "see that PostgreSQL runs",
		"postgres://127.0.0.1:1/dibs?user=a@b&sslmode=disable":                        "see that PostgreSQL runs",
		"postgres://127.0.0.1:1?user=a@b&sslmode=disable":                             "see that PostgreSQL runs",
		"host=127.0.0.1 port=1 user=dibs password=hu#sh/@":                            "see that PostgreSQL runs",
	} {
		_, err := journal.Dial(t.Context(), journal.Postgres{URL: address, Schema: "dibs", Board: oneBoard})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}
