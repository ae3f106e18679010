package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What keeps a journal from being opened passes by itself, or somebody has to do something.
func TestPassing(t *testing.T) {
	d := member(t, shared(t), time.Hour, time.Second)
	epoch, err := d.Lead(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := d.db.ExecContext(t.Context(), d.in(statement)); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
