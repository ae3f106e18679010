package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync"

	"dibs/internal/claim"
)

// maxGroup is how many operations are committed together at most, so that
// nobody waits long for the work of others before the sync that is also theirs.
const maxGroup = 32

var (
	errClosed    = errors.New("the journal is closed")
	errUnsettled = errors.New("it was given up, because a fault in another operation ended its transaction")
)

// writer is the connection that writes, and the queue of those who want it to.
//
// What takes time in a small transaction is its commit, which is synced to the
// disk. Operations that come while another commit is under way wait in the
// queue, and are then committed together: whoever comes to an idle writer leads,
// which is to run the operations at the head of the queue in one transaction.
// A leader who is done appoints the first of those who wait. So all work is done
// by the callers themselves, in the order in which they came.
//
// This is as durable as a commit for each. Nobody is told anything before the
// commit of the group has been synced, not even that an operation was refused,
// for it may have been refused because of another one in the group. A refusal,
// which is an error of ours before anything was changed, leaves the others alone.
// After any other error the group is rolled back, and each of its operations is
// run again in a transaction of its own, to fail or not by itself; so it is if
// COMMIT fails, which is what checks foreign keys. An operation may hence be run
// twice, and must not build on its first run. Savepoints would make that rarer
// still, but have SQLite copy each page anew for every operation that changes it.
//
// An operation whose context ends while it waits is given up. Once it is begun it
// is seen through: to interrupt a statement would roll back the group.
type writer struct {
	engine engine

	db   *sql.DB // of a single connection, which is tx.conn
	tx   *tx
	mu   sync.Mutex
	busy bool // somebody leads, or was appointed
	// queue has first who is appointed, if somebody is.
	queue  []*operation
	closed bool
	// stalled says why nothing is begun for now: nobody knows whether the last transaction
	// is kept. It is nil otherwise.
	stalled error

	trouble trouble
}

// operation is something to be done by the writer.
type operation struct {
	ctx context.Context
	run func(tx *tx) error
	how manner
	// err is what came of it, once it is settled.
	err     error
	settled bool
	// woken says that the operation is done, or else that it is its turn to lead.
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

// openWriter takes the connection that writes.
func openWriter(ctx context.Context, db *sql.DB, e engine) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &writer{engine: e, db: db, tx: &tx{store: e, conn: conn, prepared: map[string]*sql.Stmt{}}}, nil
}

// do has an operation done, and returns its error.
func (w *writer) do(ctx context.Context, how manner, run func(tx *tx) error) error {
	op := &operation{ctx: ctx, run: run, how: how, woken: make(chan bool, 1)}
	w.mu.Lock()
	if stalled := w.stalled; stalled != nil && how != bare {
		w.mu.Unlock()
		return stalled
	}
	w.queue = append(w.queue, op)
	lead := !w.busy
	w.busy = true
	w.mu.Unlock()
	if !lead {
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
	w.lead()
	return op.err
}

// leave takes op out of the queue, and reports whether it could: an operation
// that has begun is seen through, and who was appointed has to lead.
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

// lead runs a group, the first of which is the caller's own operation.
func (w *writer) lead() {
	group := w.next()
	// Deferred for the case that an operation panics, which must not stop the others.
	defer w.pass(group)
	w.run(group)
}

// next takes the operations of the next group off the queue.
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

// pass tells the others of the group that it is done, and appoints who leads next.
func (w *writer) pass(group []*operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = len(w.queue) > 0
	if w.busy {
		w.queue[0].appointed = true
		w.queue[0].woken <- false
	}
	for _, op := range group[1:] {
		if !op.settled {
			op.err = errUnsettled
		}
		op.woken <- true
	}
}

// run runs the operations of a group, and sets their errors.
func (w *writer) run(group []*operation) {
	begun := make([]*operation, 0, len(group))
	for _, op := range group {
		switch err := op.ctx.Err(); {
		case err != nil:
			op.settle(err)
		case w.closed:
			op.settle(errClosed)
		default:
			begun = append(begun, op)
		}
	}
	if len(begun) > 1 {
		err := w.together(begun)
		again := err != nil && !w.over() // it may be kept, if it is over, and is not done twice
		for _, op := range begun {
			if !again {
				op.settle(cmp.Or(err, op.err))
			}
		}
		if !again {
			return
		}
	}
	for _, op := range begun {
		if op.how == bare {
			op.settle(op.run(w.tx))
		} else {
			op.settle(w.transact(func() error { return op.run(w.tx) }))
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

// settle notes what came of op in the end.
func (op *operation) settle(err error) { op.err, op.settled = err, true }

// together runs operations in one transaction, and sets their errors. It returns
// an error itself if nothing of any of them was kept.
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

// transact runs fn in a transaction that is kept if fn returns nil.
//
// It works on the connection rather than through sql.Tx, which takes its
// transaction for over when COMMIT has failed or BEGIN was cancelled, and would
// hand the connection on with the transaction still open.
func (w *writer) transact(fn func() error) (err error) {
	committed, changed := false, false
	defer func() {
		if failed, ok := errors.AsType[*claim.JournalError](w.engine.explain(err)); ok {
			w.trouble.note(failed)
		} else if committed && changed {
			w.trouble.note(nil)
		}
	}()
	defer func() {
		if !committed {
			// An error means that the database had rolled back by itself already, or
			// that nothing had begun.
			_ = w.tx.control("ROLLBACK")
		}
	}()
	if err := w.begin(); err != nil {
		return err
	}
	w.tx.changed = false
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

// stall finds out whether a transaction is kept. Who waits for a turn meanwhile, or comes, is
// turned away.
func (w *writer) stall(unsure *unsure) error {
	w.mu.Lock()
	w.stalled = unsure.cause
	queue := w.queue
	w.queue = nil
	for _, op := range queue {
		if op.how == bare { // it ends the journal, say
			w.queue = append(w.queue, op)
			continue
		}
		op.settle(unsure.cause)
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

// begin begins a transaction, on another connection if the one there was is lost: a database
// that was away is back.
func (w *writer) begin() error {
	err := w.engine.begin(w.tx)
	if !lost(err) {
		return err
	}
	_ = w.tx.close() // first, for there is room for one; it has nothing to close but what is lost
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		return err
	}
	w.tx.conn, w.tx.prepared = conn, map[string]*sql.Stmt{}
	return w.engine.begin(w.tx)
}

// close closes the connection after the operations that are under way.
func (w *writer) close() error {
	err := w.do(context.Background(), bare, func(tx *tx) error {
		w.closed = true // nobody but who leads looks at it
		return errors.Join(tx.close(), w.db.Close())
	})
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// write runs fn in a transaction that is kept if fn returns nil, together with
// the transactions of others who write at the same time. fn may be run twice.
func (j *Journal) write(ctx context.Context, fn func(tx *tx) error) error {
	return j.writer.do(ctx, grouped, fn)
}

// writeAlone is write for what takes long: it has a turn for itself.
func (j *Journal) writeAlone(ctx context.Context, fn func(tx *tx) error) error {
	return j.writer.do(ctx, alone, fn)
}

// maxShared is with how many things an operation does not take long yet.
const maxShared = 16

// writeMany is write or writeAlone, for an operation with n things.
func (j *Journal) writeMany(ctx context.Context, n int, fn func(tx *tx) error) error {
	if n > maxShared {
		return j.writeAlone(ctx, fn)
	}
	return j.write(ctx, fn)
}

// outside runs fn on the connection that writes, outside of any transaction.
func (j *Journal) outside(ctx context.Context, fn func(conn *sql.Conn) error) error {
	return j.writer.do(ctx, bare, func(tx *tx) error { return fn(tx.conn) })
}
