package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// engine is the store of an open journal.
type engine interface {
	store
	// reads returns connections that cannot write, and writes the one that does. Both
	// connect on first use.
	reads() (*sql.DB, error)
	writes() (*sql.DB, error)
	// prepare runs before the first transaction, on a journal with a schema of that number, 0 for none.
	// It creates the tables or carries them over, and returns in which time transactions may be lost.
	prepare(ctx context.Context, w *writer, readers *pool, schema int) (lost Span, err error)
	// begin begins a transaction, and commit commits it. If commit fails with an *unsure,
	// fate finds out whether the transaction was kept; it returns nil if so.
	begin(tx *tx) error
	commit(tx *tx) error
	fate(*unsure) error
	// over returns a channel that is closed once this process can save nothing any more; nil
	// if that cannot happen.
	over() <-chan struct{}
	// away returns why the database cannot be reached; nil if it can.
	away() error
	// compact frees unused space.
	compact(ctx context.Context, w *writer) error
}

// unsure is the error of a COMMIT without an answer: the transaction may have been kept or not.
type unsure struct {
	cause  error // why there was no answer
	id     string
	number int64 // in its term
}

func (u *unsure) Error() string {
	return fmt.Sprintf("it is not known whether the last change was kept (%v)", u.cause)
}
func (u *unsure) Unwrap() error { return u.cause }

// tx is the writing connection during a transaction. It prepares each statement once.
// Its methods ignore their contexts: a transaction that has begun is not interrupted.
type tx struct {
	store    store
	conn     *sql.Conn
	prepared map[string]*sql.Stmt                  // by query; unused if the store does not compile
	changed  bool                                  // a statement changed something since this was set to false
	stored   []Stored                              // facts stored by the transaction so far
	notices  map[outbox.Kind]func(claim.Fact) bool // see SetReceivers
	lost     Span                                  // see Journal.Lost
}

// statement returns the query as a statement.
func (t *tx) statement(query string) (statement, error) {
	if !t.store.compiles() {
		return sent{t.conn, t.store.rewrite(query)}, nil
	}
	if s := t.prepared[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(context.Background(), t.store.rewrite(query))
	if err == nil {
		t.prepared[query] = s
	}
	return s, err
}

func (t *tx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return nil, err
	}
	n, err := result.RowsAffected()
	t.changed = t.changed || n > 0
	return result, err
}

func (t *tx) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

func (t *tx) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	s, err := t.statement(query)
	if err != nil { // running it again gives the caller the same error
		return t.conn.QueryRowContext(context.Background(), query, args...)
	}
	return s.QueryRowContext(context.Background(), args...)
}

// insert runs an INSERT into a table whose rows have a number, seq, and returns that of the new row.
func (t *tx) insert(ctx context.Context, query string, args ...any) (seq int64, err error) {
	if t.store.numbers() {
		result, err := t.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return result.LastInsertId()
	}
	t.changed = true // perhaps
	err = t.QueryRowContext(ctx, query+" RETURNING seq", args...).Scan(&seq)
	return seq, err
}

// affect runs a statement and returns the number of rows changed.
func affect(ctx context.Context, tx *tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// control runs a statement that begins or ends a transaction or a part of one.
func (t *tx) control(statement string) error {
	_, err := t.ExecContext(context.Background(), statement)
	return err
}

// close closes the prepared statements, and gives the connection back.
func (t *tx) close() error {
	var errs []error
	for _, s := range t.prepared {
		errs = append(errs, s.Close())
	}
	if err := t.conn.Close(); !errors.Is(err, sql.ErrConnDone) { // it may have been cut
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// script runs several statements, without preparing them.
func (t *tx) script(statements string) error {
	_, err := t.conn.ExecContext(context.Background(), statements)
	return err
}

// Stored is a fact that was just stored.
type Stored struct {
	claim.Fact
	// Recorded is set if the fact is on record. Else it is a change that was seen on the board.
	Recorded bool
}

// maxGroup is how many operations are committed together at most, so that none of
// them waits long for the others.
const maxGroup = 32

var (
	errClosed  = errors.New("the journal is closed")
	errAborted = errors.New("it was given up, because a fault in another operation ended its transaction")
)

// writer is the writing connection, with the queue of operations for it. It does group
// commit.
//
// In a small transaction the commit takes the time, because it syncs the disk. So
// operations that arrive during a commit wait in the queue, and are then committed
// together. A caller that finds the writer idle becomes the committer: it runs the
// operations at the head of the queue in one transaction, and then appoints the first
// waiter as the next committer. So the callers themselves do all the work, in the order
// in which they came.
//
// This is as durable as one commit for each operation. No caller gets an answer before
// the group's commit is synced, not even a refusal: the cause of the refusal may be
// another operation of the group. A refusal is an error of ours before anything was
// changed; it does not affect the others. After any other error the group is rolled
// back, and each operation runs again in a transaction of its own. The same happens if
// COMMIT fails, which checks foreign keys. So an operation may run twice, and must not
// build on its first run. (Savepoints would make that rarer, but they make SQLite copy
// every page again for each operation that changes it.)
//
// An operation whose context ends while it waits is dropped. Once begun it is not
// interrupted: that would roll back the group.
type writer struct {
	engine engine

	db   *sql.DB // of a single connection, which is tx.conn
	tx   *tx
	mu   sync.Mutex
	busy bool // there is a committer, or one is appointed
	// queue begins with the appointed committer, if there is one.
	queue  []*operation
	closed bool
	// stalled is why no transaction begins for now: the fate of the last one is unknown. It
	// is nil otherwise.
	stalled error

	trouble trouble
	hear    atomic.Pointer[func([]Stored)]
}

// operation is a unit of work for the writer.
type operation struct {
	ctx context.Context
	run func(tx *tx) error
	how manner
	// err is the result, once it is finished.
	err      error
	finished bool
	// woken gets true once the operation is done, or false if its caller is to commit.
	woken     chan bool
	appointed bool
}

// manner is how an operation is run.
type manner int

const (
	grouped manner = iota // in a transaction, with others perhaps
	alone                 // in a transaction of its own
	bare                  // outside transactions
)

// openWriter returns a writer on a connection of db.
func openWriter(ctx context.Context, db *sql.DB, e engine) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &writer{engine: e, db: db, tx: &tx{store: e, conn: conn, prepared: map[string]*sql.Stmt{}}}, nil
}

// do runs an operation, and returns its error.
func (w *writer) do(ctx context.Context, how manner, run func(tx *tx) error) error {
	defer w.engine.waiting(ctx)()
	op := &operation{ctx: ctx, run: run, how: how, woken: make(chan bool, 1)}
	w.mu.Lock()
	if stalled := w.stalled; stalled != nil && how != bare {
		w.mu.Unlock()
		return stalled
	}
	w.queue = append(w.queue, op)
	idle := !w.busy
	w.busy = true
	w.mu.Unlock()
	if !idle {
		var done bool
		select {
		case done = <-op.woken:
		case <-ctx.Done():
			if w.leave(op) {
				return ctx.Err()
			}
			done = <-op.woken
		}
		if done {
			return op.err
		}
	}
	w.commitGroup()
	return op.err
}

// leave takes op out of the queue. It returns false if that is too late: the operation
// has begun, or its caller is appointed as the committer.
func (w *writer) leave(op *operation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, queued := range w.queue {
		if queued == op && !op.appointed {
			w.queue = append(w.queue[:i:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// commitGroup runs a group of operations, of which the caller's own is the first.
func (w *writer) commitGroup() {
	group := w.next()
	// Deferred, because an operation that panics must not stop the others.
	defer w.pass(group)
	w.run(group)
}

// next takes the next group off the queue.
func (w *writer) next() []*operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 1
	for w.queue[0].how == grouped && n < min(maxGroup, len(w.queue)) && w.queue[n].how == grouped {
		n++
	}
	group := w.queue[:n:n]
	w.queue = w.queue[n:]
	return group
}

// pass wakes the other callers of the group, and appoints the next committer.
func (w *writer) pass(group []*operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = len(w.queue) > 0
	if w.busy {
		w.queue[0].appointed = true
		w.queue[0].woken <- false
	}
	for _, op := range group[1:] {
		if !op.finished {
			op.err = errAborted
		}
		op.woken <- true
	}
}

// run runs the operations of a group and sets their results.
func (w *writer) run(group []*operation) {
	begun := make([]*operation, 0, len(group))
	for _, op := range group {
		switch err := op.ctx.Err(); {
		case err != nil:
			op.finish(err)
		case w.closed:
			op.finish(errClosed)
		default:
			begun = append(begun, op)
		}
	}
	if len(begun) > 1 {
		err := w.together(begun)
		again := err != nil && !w.over() // if it is over, the group may have been kept: do not run it twice
		for _, op := range begun {
			if !again {
				op.finish(cmp.Or(err, op.err))
			}
		}
		if !again {
			return
		}
	}
	for _, op := range begun {
		if op.how == bare {
			op.finish(op.run(w.tx))
		} else {
			op.finish(w.transact(func() error { return op.run(w.tx) }))
		}
	}
}

// over reports whether nothing can be saved here any more.
func (w *writer) over() bool {
	select {
	case <-w.engine.over():
		return true
	default:
		return false
	}
}

// finish sets the result of op.
func (op *operation) finish(err error) { op.err, op.finished = err, true }

// together runs operations in one transaction and sets their results. It returns an
// error if nothing of any of them was kept.
func (w *writer) together(ops []*operation) error {
	return w.transact(func() error {
		for _, op := range ops {
			w.tx.changed = false
			op.err = op.run(w.tx)
			if op.err != nil && (w.engine.fault(op.err) || w.tx.changed) {
				return op.err
			}
		}
		return nil
	})
}

// transact runs fn in a transaction, and commits it if fn returns nil.
//
// It does not use sql.Tx, which considers the transaction over when COMMIT has failed or
// BEGIN was cancelled, and would reuse the connection with the transaction still open.
func (w *writer) transact(fn func() error) (err error) {
	committed, changed := false, false
	defer func() {
		if failed, ok := errors.AsType[*claim.JournalError](w.engine.explain(err)); ok {
			w.trouble.note(failed)
		} else if committed && changed {
			w.trouble.note(nil)
		}
		if committed {
			w.tell(w.tx.stored)
		}
	}()
	defer func() {
		if !committed {
			// An error means that the database had rolled back already, or that nothing
			// had begun.
			_ = w.tx.control("ROLLBACK")
		}
	}()
	if err := w.begin(); err != nil {
		return err
	}
	w.tx.changed, w.tx.stored = false, nil
	if err := fn(); err != nil {
		return err
	}
	changed = w.tx.changed
	err = w.engine.commit(w.tx)
	if unsure, ok := errors.AsType[*unsure](err); ok {
		err = w.stall(unsure)
	}
	committed = err == nil
	return err
}

// tell passes on the facts of a transaction.
func (w *writer) tell(facts []Stored) {
	if hear := w.hear.Load(); hear != nil && len(facts) > 0 {
		(*hear)(facts)
	}
}

// stall finds out whether a transaction was kept. Meanwhile operations fail, those that wait
// and those that come.
func (w *writer) stall(unsure *unsure) error {
	w.mu.Lock()
	w.stalled = unsure.cause
	queue := w.queue
	w.queue = nil
	for _, op := range queue {
		if op.how == bare { // such as closing the journal
			w.queue = append(w.queue, op)
			continue
		}
		op.finish(unsure.cause)
		op.woken <- true
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stalled = nil
	}()
	return w.engine.fate(unsure)
}

// begin begins a transaction. If the connection is lost, it takes a new one: the database may be
// back.
func (w *writer) begin() error {
	err := w.engine.begin(w.tx)
	if !lost(err) {
		return err
	}
	_ = w.tx.close() // first, because the pool has one connection; errors are about the lost one
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		return err
	}
	w.tx.conn, w.tx.prepared = conn, map[string]*sql.Stmt{}
	return w.engine.begin(w.tx)
}

// outside runs fn on the connection, outside of any transaction.
func (w *writer) outside(ctx context.Context, fn func(conn *sql.Conn) error) error {
	return w.do(ctx, bare, func(tx *tx) error { return fn(tx.conn) })
}

// close closes the connection once the operations under way are done.
func (w *writer) close() error {
	err := w.do(context.Background(), bare, func(tx *tx) error {
		w.closed = true // only committers read it
		return errors.Join(tx.close(), w.db.Close())
	})
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// trouble is the reason why the journal cannot be written. It is safe for concurrent use.
type trouble struct {
	mu    sync.Mutex
	why   error // why the last change was not stored; nil if it was
	watch func(why error)
}

// note stores the outcome of a change, and reports it to the watcher if it is news.
func (t *trouble) note(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := (t.why == nil) != (why == nil)
	t.why = why
	if news && t.watch != nil {
		t.watch(why)
	}
}
