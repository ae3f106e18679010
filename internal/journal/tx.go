package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"dibs/internal/claim"
)

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

// outside runs fn on the writing connection, outside of any transaction.
func (j *Journal) outside(ctx context.Context, fn func(conn *sql.Conn) error) error {
	return j.writer.do(ctx, bare, func(tx *tx) error { return fn(tx.conn) })
}
