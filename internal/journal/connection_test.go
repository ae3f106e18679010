package journal

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/testkit/pgtest"
)

// fault is what a proxy does to the next COMMIT.
type fault string

const (
	loseAnswer   fault = "the answer is lost"
	loseQuestion fault = "it never comes to the server, which sees the connection end"
	hangQuestion fault = "it never comes to the server, which sees nothing"
	refuseAll    fault = "it comes to the server, and nobody gets there any more"
)

// proxy is a way to a server that can fail.
type proxy struct {
	t      *testing.T
	listen net.Listener
	target string
	url    string // of the server, by this way

	mu    sync.Mutex
	next  fault
	conns []net.Conn
	shut  bool
	met   chan struct{} // closed when next has happened
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	at, err := url.Parse(server)
	do(t, err)
	p := &proxy{t: t, target: at.Host}
	if p.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listen.Close(); p.cut() })
	at.Host = p.listen.Addr().String()
	p.url = at.String()
	go func() {
		for {
			client, err := p.listen.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// set says whether nobody gets through.
func (p *proxy) set(shut bool) {
	p.mu.Lock()
	p.shut = shut
	p.mu.Unlock()
	if shut {
		p.cut()
	}
}

// plan says what is to happen to the next COMMIT.
func (p *proxy) plan(f fault) (met <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.met = f, make(chan struct{})
	return p.met
}

// takes returns what is to happen to data, if that ends with COMMIT.
func (p *proxy) takes(data []byte) (f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == "" || !bytes.Contains(data, []byte("COMMIT\x00")) {
		return ""
	}
	f, p.next = p.next, ""
	p.shut = p.shut || f == refuseAll
	close(p.met)
	return f
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	p.mu.Lock()
	if err != nil || p.shut {
		client.Close()
		if server != nil {
			server.Close()
		}
		p.mu.Unlock()
		return
	}
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var mu sync.Mutex
	lost := false
	go func() { // answers
		defer client.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			mu.Lock()
			gone := lost
			mu.Unlock()
			if err != nil || gone {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			server.Close()
			return
		}
		switch p.takes(buffer[:n]) {
		case loseQuestion:
			client.Close()
			server.Close()
			return
		case hangQuestion:
			client.Close() // and the server's end stays
			return
		case loseAnswer, refuseAll:
			mu.Lock()
			lost = true
			mu.Unlock()
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			client.Close()
			return
		}
	}
}

// soon has the test fail unless something is refused, with when to try again, in time.
func soon(t *testing.T, limit time.Duration, call func() error) {
	t.Helper()
	begun := time.Now()
	err := call()
	if took := time.Since(begun); took > limit {
		t.Errorf("it took %v to be told: %v", took, err)
	}
	if !isUnavailable(err) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v, want one that says when to try again, in a line", err)
	}
}

// comesBack makes a call until it is not refused because the server is away.
func comesBack(t *testing.T, call func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if err == nil {
			return
		}
		if !isUnavailable(err) || time.Since(begun) > 5*time.Second {
			t.Fatalf("%v after it is back: %v", time.Since(begun), err)
		}
	}
}

// A server that goes away, in whatever way, is told of at once; after it is back everything
// goes on by itself.
func TestServerAway(t *testing.T) {
	pgtest.OnlyPostgres(t)
	server := pgtest.Run(t)
	d := member(t, Postgres{URL: server.URL(), Schema: "dibs", Board: "a"}, time.Hour, time.Second)
	j, epoch := leads(t, d, "a")
	for _, tt := range []struct {
		name       string
		away, back func() error
		first      time.Duration // until it is known
	}{
		{"stopped", server.Stop, server.Start, time.Second},
		{"killed", server.Kill, server.Start, time.Second},
		{"silent", server.Freeze, server.Thaw, 6 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			do(t, j.SetMeta(t.Context(), "k", tt.name))
			wantMeta(t, j, "k", tt.name)
			do(t, d.Renew(t.Context(), epoch))
			do(t, tt.away())
			defer func() {
				if t.Failed() {
					tt.back()
				}
			}()
			save := func() error { return j.SetMeta(t.Context(), "k", "away") }
			impatient := make(chan time.Time, 10)
			ctx := claim.Patience(t.Context(), func() { impatient <- time.Now() })
			gone := time.Now()
			reading := make(chan error)
			go func() { _, err := j.Meta(ctx, "k"); reading <- err }()
			soon(t, tt.first, func() error { return j.SetMeta(ctx, "k", "away") })
			soon(t, tt.first, func() error { return <-reading })
			for range 2 {
				if tt.first > time.Second && (<-impatient).Sub(gone) > time.Second {
					t.Error("callers that wait for a second are not told")
				}
			}
			for range 10 {
				soon(t, time.Second, save)
			}
			soon(t, time.Second, func() error { _, err := j.Meta(t.Context(), "k"); return err })
			soon(t, time.Second, func() error { return d.Renew(t.Context(), epoch) })
			soon(t, time.Second, func() error { _, err := d.Members(t.Context()); return err })
			do(t, tt.back())
			comesBack(t, func() error { return j.SetMeta(t.Context(), "k", "back") })
			wantMeta(t, j, "k", "back")
			if err := d.Renew(t.Context(), epoch); err != nil || isOver(j) {
				t.Errorf("Renew = %v, over: %v", err, isOver(j))
			}
		})
	}
}

// Connections end at any time: a pooler cuts those that are idle, an administrator ends sessions.
// Nobody is refused for that.
func TestConnectionsThatAreCut(t *testing.T) {
	server := shared(t).URL
	way := newProxy(t, server)
	admin, err := sql.Open("pgx", server)
	do(t, err)
	defer admin.Close()
	for name, cut := range map[string]func() error{
		"by a pooler": func() error { way.cut(); return nil },
		"by the server": func() error {
			_, err := admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cut'")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := shared(t)
			p.URL = way.url + "&application_name=cut"
			d := member(t, p, time.Hour, 2*time.Second)
			j, led := leads(t, d, "a")
			for what, call := range map[string]func() error{
				"a change":        func() error { return j.SetMeta(t.Context(), "k", "v") },
				"a question":      func() error { _, err := j.Meta(t.Context(), "k"); return err },
				"a renewal":       func() error { return d.Renew(t.Context(), led) },
				"a look":          func() error { _, err := d.Members(t.Context()); return err },
				"an announcement": func() error { return d.Introduce(t.Context(), "a", []byte("{}"), time.Hour) },
			} {
				for range 2 {
					for _, db := range []*sql.DB{d.db, j.readers.DB} { // all connections are in use, just now
						var all sync.WaitGroup
						for range maxReaders {
							all.Go(func() { db.ExecContext(t.Context(), "SELECT pg_sleep(0.01)") })
						}
						all.Wait()
					}
					do(t, cut())
					if err := call(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
		})
	}
}

// Who waits for a server that does not answer, because a standby that it waits for is gone, is told
// so, and what to do.
func TestSlowStartIsTold(t *testing.T) {
	pgtest.OnlyPostgres(t)
	server := pgtest.Run(t)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			do(t, server.Exec(statement))
		}
	}
	exec("ALTER SYSTEM SET synchronous_standby_names = 'gone'", "SELECT pg_reload_conf()")
	said, told := io.Pipe()
	made, err := newPostgres(Postgres{URL: server.URL(), Schema: "dibs", Board: "a", Log: slog.New(slog.NewTextHandler(told, nil))})
	do(t, err)
	made.quiet = 100 * time.Millisecond
	result := make(chan error, 1)
	go func() {
		d, err := dial(t.Context(), made)
		if err == nil {
			err = d.Close()
		}
		told.Close()
		result <- err
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.Contains(line, "synchronous_standby_names") || !strings.Contains(line, "postgres") {
		t.Errorf("it says %q, %v", line, err)
	}
	exec("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	check(t, <-result)
}

// What keeps a journal from being opened passes by itself, or somebody has to do something.
func TestPassing(t *testing.T) {
	d := member(t, shared(t), time.Hour, time.Second)
	epoch, err := d.Lead(t.Context(), "a")
	do(t, err)
	exec := func(statement string) {
		t.Helper()
		do(t, errOf(d.db.ExecContext(t.Context(), d.in(statement))))
	}
	advised := map[string]string{"53300": "max_connections", "57014": "statement_timeout"}
	for code, passes := range map[string]bool{
		"08006": true,  // the connection failed
		"57014": true,  // it took longer than the role's statements may
		"57P01": true,  // the server is being stopped
		"25P03": true,  // it gave us up
		"55P03": true,  // another session keeps a lock
		"53300": true,  // all connections are taken
		"53100": true,  // the disk is full
		"58030": true,  // it cannot be read
		"28000": false, // the user may not come in
		"3D000": false, // there is no such database
		"42501": false, // the user may not do that
		"25006": true,  // the server is a standby
		"42P01": false, // there is no such table
	} {
		t.Run(code, func(t *testing.T) {
			exec("CREATE OR REPLACE FUNCTION %s.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '" + code + "'; END $$")
			exec("CREATE TRIGGER fail BEFORE UPDATE ON %s.owed FOR EACH STATEMENT EXECUTE FUNCTION %[1]s.fail()")
			j, err := d.Open(t.Context(), epoch)
			if err == nil {
				j.Close()
				t.Fatal("the journal was opened")
			}
			if Passing(fmt.Errorf("it cannot lead: %w", err)) != passes {
				t.Errorf("%v passes: %v, want %v", err, !passes, passes)
			}
			if !strings.Contains(err.Error(), advised[code]) {
				t.Errorf("%v does not say %s", err, advised[code])
			}
			exec("DROP TRIGGER fail ON %s.owed")
		})
	}
}

// The database goes away while a journal is opened, and what was changed by that may be kept: it
// is put right anew when the database is back.
func TestPassingWhereFateIsUnknown(t *testing.T) {
	p := shared(t)
	way := newProxy(t, p.URL)
	p.URL = way.url
	d := member(t, p, time.Hour, 500*time.Millisecond)
	epoch, err := d.Lead(t.Context(), "a")
	do(t, err)
	way.plan(refuseAll)
	if _, err := d.Open(t.Context(), epoch); !Passing(err) {
		t.Errorf("Open = %v, which does not pass", err)
	}
	way.set(false)
	comesBack(t, func() error {
		j, err := d.Open(t.Context(), epoch)
		if err == nil {
			err = j.Close()
		}
		return err
	})
}

// pooled is a journal behind a pooler.
func pooled(where string) Postgres {
	return Postgres{URL: where, Schema: "dibs", Board: "0123456789abcdef0123456789abcdef"}
}

// A pooler ends connections, such as those that were idle for too long, with an error. Nobody is
// refused for that.
func TestPoolerThatEndsConnections(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	where := pgtest.Pooled(t, pgtest.Run(t), "transaction")
	j, _ := leads(t, member(t, pooled(where), time.Hour, time.Minute), "test")
	console, err := sql.Open("pgx", strings.Replace(where, "/postgres?", "/pgbouncer?default_query_exec_mode=simple_protocol&", 1))
	do(t, err)
	defer console.Close()
	for what, call := range map[string]func() error{
		"a change":   func() error { return j.SetMeta(t.Context(), "k", "v") },
		"a question": func() error { _, err := j.Meta(t.Context(), "k"); return err },
	} {
		for range 2 {
			for _, command := range []string{"KILL postgres", "RESUME postgres"} {
				do(t, errOf(console.Exec(command)))
			}
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// Whatever form the database gives its values in, they are read as they are.
func TestDatabaseWithItsOwnForms(t *testing.T) {
	pgtest.OnlySQLite(t) // once
	s := pgtest.Run(t)
	for _, setting := range []string{
		"DateStyle = 'German, DMY'", "IntervalStyle = sql_standard", "TimeZone = 'Asia/Kolkata'", "bytea_output = escape",
		"extra_float_digits = -10", "default_transaction_isolation = serializable",
	} {
		do(t, s.Exec("ALTER DATABASE postgres SET "+setting))
	}
	where := pgtest.Pooled(t, s, "transaction")
	j, _ := leads(t, member(t, pooled(where), time.Hour, time.Minute), "test")
	callAll(t, j)
	answer := outbox.Answer{Status: 200, Body: []byte(`{"a":"\\x00é"}`)}
	do(t, errOf(j.BeginRequest(t.Context(), 1, "key", "it", time.Now())))
	do(t, j.FinishRequest(t.Context(), 1, "key", answer))
	if got, err := j.BeginRequest(t.Context(), 1, "key", "it", time.Now()); err != nil || got == nil || string(got.Body) != string(answer.Body) {
		t.Errorf("an answer is kept as %+v, %v", got, err)
	}
	found, err := Probe(t.Context(), pooled(where))
	if err != nil || found.Leader != "test" || found.Ahead.Abs() > time.Minute || found.Now.Sub(found.Since).Abs() > time.Minute || time.Since(found.Since).Abs() > time.Minute {
		t.Errorf("Probe = %+v, %v", found, err)
	}
}
