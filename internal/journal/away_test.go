package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/testkit/pgtest"
)

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
	if pgtest.URL() == "" {
		t.Skip("this is about PostgreSQL")
	}
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
			if err := j.SetMeta(t.Context(), "k", tt.name); err != nil {
				t.Fatal(err)
			}
			wantMeta(t, j, "k", tt.name)
			if err := d.Renew(t.Context(), epoch); err != nil {
				t.Fatal(err)
			}
			if err := tt.away(); err != nil {
				t.Fatal(err)
			}
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
			if err := tt.back(); err != nil {
				t.Fatal(err)
			}
			comesBack(t, func() error { return j.SetMeta(t.Context(), "k", "back") })
			wantMeta(t, j, "k", "back")
			if err := d.Renew(t.Context(), epoch); err != nil || isOver(j) {
				t.Errorf("Renew = %v, over: %v", err, isOver(j))
			}
		})
	}
}

// No error shows the password, wherever it comes from.
func TestNoErrorShowsThePassword(t *testing.T) {
	const password = "sEcr3t"
	passfile := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(passfile, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSWORD", password)
	t.Setenv("PGPASSFILE", passfile)
	for _, at := range []string{
		"postgres://dibs:" + password + "@127.0.0.1:1/dibs",
		"postgres://dibs:" + password + "@127.0.0.1:1,127.0.0.1:2/dibs",
		"postgres://dibs:" + password + "@127.0.0.1:none/dibs",
		"postgres://dibs:" + password + "@[::1/dibs",
		"postgres://dibs:" + password + "%zz@127.0.0.1/dibs",
		"host=127.0.0.1 port=1 password='" + password + "'",
		"host=127.0.0.1 port=1 password='" + password,
		"postgres://dibs:" + password + "@127.0.0.1:1/dibs?sslmode=verify-full&sslrootcert=/none",
		"host=127.0.0.1 port=1",
	} {
		d, err := Dial(t.Context(), Postgres{URL: at, Schema: "dibs", Board: "a"})
		if err == nil {
			d.Close()
			t.Errorf("%s is reached", at)
			continue
		}
		if said := err.Error(); strings.Contains(said, password) || strings.Contains(said, "\n") {
			t.Errorf("of %s it says %q", at, said)
		}
		t.Log(err)
	}
}
