package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"dibs/internal/claim"
	"dibs/internal/claim/brake"
)

var _ claim.Ledger = (*Journal)(nil)

// Journal is an open journal.
type Journal struct {
	engine engine
	// writer has a single connection, so that writes queue here instead of
	// failing with SQLITE_BUSY.
	writer *writer
	// readers never wait for the writer: SQLite's file is in WAL mode.
	readers *pool
	bounds  atomic.Pointer[brake.Bounds]
	lost    Span
	found   int // the number of the schema that it had
}

// CarriedOver says in a line that Open carried the journal over from an older schema; empty if not.
func (j *Journal) CarriedOver() string {
	f, isFile := j.engine.(file)
	if !isFile || j.found == 0 || j.found == Schema {
		return ""
	}
	return fmt.Sprintf("the journal was carried over from schema %d to %d; a copy of the former one is at %s", j.found, Schema, f.former())
}

// Lost returns from when to when accepted things may be lost, as of when the journal was opened.
func (j *Journal) Lost() Span { return j.lost }

// Path names the journal's place for people: its file, or its database.
func (j *Journal) Path() string { return j.engine.String() }

// Over returns a channel that is closed once nothing can be saved here any more, because
// another member may lead. Whoever wants to go on has to open the journal again. It never
// happens with an SQLite file.
func (j *Journal) Over() <-chan struct{} { return j.engine.over() }

// Away returns why the journal's database cannot be reached, as a *claim.JournalError, or nil if it
// can. It does not ask the database. For an SQLite file it is always nil: a file that cannot be
// written can still be read.
func (j *Journal) Away() error { return j.engine.explain(j.engine.away()) }

// Watch has watch called with a *claim.JournalError when the journal cannot be written, and with
// nil when it can be written again. The call comes during a change, and must not use the journal.
// Earlier failures are not reported.
func (j *Journal) Watch(watch func(why error)) {
	j.writer.trouble.mu.Lock()
	defer j.writer.trouble.mu.Unlock()
	j.writer.trouble.watch = watch
}

const (
	// metaTried is the key of a value that is stored only to find out whether writing works.
	metaTried = "tried"
	// usual is the size of that value in bytes: more than a change usually takes.
	usual = 64 << 10
)

// Trouble returns why the journal cannot be written, as a *claim.JournalError, or nil if it can.
// If the last change failed, it tries to write something first.
func (j *Journal) Trouble(ctx context.Context) error {
	j.writer.trouble.mu.Lock()
	why := j.writer.trouble.why
	j.writer.trouble.mu.Unlock()
	if why == nil {
		return nil
	}
	if err := j.SetMeta(ctx, metaTried, strings.Repeat("-", usual)); err != nil {
		return err
	}
	return j.SetMeta(ctx, metaTried, "")
}

// Hear has hear called with the facts of each transaction from now on, once they are durable, in
// the order of storing. So each fact is heard once, and only by the process that stored it: not
// again after a restart, nor by another member. A process that dies between the two was not heard
// to say it; the fact is in the journal.
//
// The next transaction waits for the call, which must be short and must not use the journal.
func (j *Journal) Hear(hear func([]Stored)) { j.writer.hear.Store(&hear) }

// failed says what was being done when err happened; it returns nil for nil.
func (j *Journal) failed(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), j.engine.explain(err))
}

// write runs fn in a transaction, and commits it if fn returns nil. It may share the
// transaction with concurrent writes. fn may run twice.
func (j *Journal) write(ctx context.Context, fn func(tx *tx) error) error {
	return j.writer.do(ctx, grouped, fn)
}

// writeAlone is write for long operations: it has a transaction of its own.
func (j *Journal) writeAlone(ctx context.Context, fn func(tx *tx) error) error {
	return j.writer.do(ctx, alone, fn)
}

// maxShared is the largest number of things with which writeMany shares a transaction.
const maxShared = 16

// writeMany is write or writeAlone, depending on the number of things that fn writes.
func (j *Journal) writeMany(ctx context.Context, n int, fn func(tx *tx) error) error {
	if n > maxShared {
		return j.writeAlone(ctx, fn)
	}
	return j.write(ctx, fn)
}

// MetaSources is the key of the data sources that are used: a JSON object of notion.Choice, by the
// id of the database.
const MetaSources = "data_sources"

// Meta returns the value that SetMeta stored under key; "" if there is none.
func (j *Journal) Meta(ctx context.Context, key string) (string, error) {
	value, err := readMeta(ctx, j.readers, key)
	return value, j.failed(err, "reading %q", key)
}

// SetMeta stores value under key.
func (j *Journal) SetMeta(ctx context.Context, key, value string) error {
	err := j.write(ctx, func(tx *tx) error { return setMeta(ctx, tx, key, value) })
	return j.failed(err, "storing %q", key)
}

// kind names a set of few, short-lived things. Each has a key, and is stored as JSON.
type kind string

const (
	kindKeepers     kind = "keepers"  // who keeps a claim alive, by the claim
	kindOffer       kind = "offer"    // of a task to an agent that has not answered yet, by the task
	kindQuestion    kind = "question" // of an agent to people, by the task
	kindReservation kind = "reserved" // files or other things, by the reservation
)

// put stores a thing, in place of any with the same key. agent is its owner, for the kinds that
// statements select by agent.
func (k kind) put(ctx context.Context, tx *tx, key, agent string, thing any) error {
	body, err := json.Marshal(thing)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO kept (kind, key, agent, body) VALUES (?, ?, ?, ?)
		    ON CONFLICT (kind, key) DO UPDATE SET agent = excluded.agent, body = excluded.body`, k, key, agent, string(body))
	return err
}

// drop deletes the thing with that key, if there is one.
func (k kind) drop(ctx context.Context, tx *tx, key string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM kept WHERE kind = ? AND key = ?", k, key)
	return err
}

// find returns the thing with that key; ok is false if there is none.
func find[T any](ctx context.Context, q querier, k kind, key string) (thing T, ok bool, err error) {
	thing, err = scanBody[T](q.QueryRowContext(ctx, "SELECT body FROM kept WHERE kind = ? AND key = ?", k, key), string(k))
	if errors.Is(err, sql.ErrNoRows) {
		return thing, false, nil
	}
	return thing, err == nil, err
}

// list returns the things of a kind and their keys, by key.
func list[T any](ctx context.Context, q querier, k kind) (keys []string, things []T, err error) {
	things, err = collect(ctx, q, func(row scanner) (thing T, err error) {
		var key string
		var body []byte
		if err := row.Scan(&key, &body); err != nil {
			return thing, err
		}
		keys = append(keys, key)
		return fromBody[T](body, string(k))
	}, "SELECT key, body FROM kept WHERE kind = ? ORDER BY key", k)
	return keys, things, err
}

// fromBody returns what a row's body says, which is JSON; what names it in an error.
func fromBody[T any](body []byte, what string) (thing T, err error) {
	if err := json.Unmarshal(body, &thing); err != nil {
		return thing, fmt.Errorf("the body of a %s: %w", what, err)
	}
	return thing, nil
}

// scanBody is fromBody for a row of a body alone.
func scanBody[T any](row scanner, what string) (thing T, err error) {
	var body []byte
	if err := row.Scan(&body); err != nil {
		return thing, err
	}
	return fromBody[T](body, what)
}
