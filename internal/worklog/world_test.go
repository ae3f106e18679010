package worklog_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/worklog"
)

// outbox is an outbox in memory. Like the journal, it refuses whatever comes
// under a context that has ended.
type outbox struct {
	mu    sync.Mutex
	items []*owed
}

type owed struct {
	worklog.Item
	state     string // due, sending, in doubt or delivered
	notBefore time.Time
	delivered time.Time
}

// owe adds entries for one log.
func (o *outbox) owe(log claim.Log, ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		event := claim.Event{ID: id, Kind: claim.KindGranted, Agent: "Sandman", Title: id}
		o.items = append(o.items, &owed{Item: worklog.Item{Entry: event, Log: log}, state: "due"})
	}
}

// restart has a new process find what the last one was sending.
func (o *outbox) restart() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, item := range o.items {
		if item.state == "sending" {
			item.state, item.InDoubt = "in doubt", true
		}
	}
}

// waiting yields the items that are owed to the logs and not being sent.
func (o *outbox) waiting(logs []claim.Log) (items []*owed) {
	for _, item := range o.items {
		if (item.state == "due" || item.state == "in doubt") && slices.Contains(logs, item.Log) {
			items = append(items, item)
		}
	}
	return items
}

func (o *outbox) NextOutbox(ctx context.Context, now time.Time, limit int, logs ...claim.Log) (items []worklog.Item, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, item := range o.waiting(logs) {
		if !item.notBefore.After(now) && len(items) < limit {
			items = append(items, item.Item)
		}
	}
	return items, ctx.Err()
}

func (o *outbox) NextOutboxAt(ctx context.Context, logs ...claim.Log) (first time.Time, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, item := range o.waiting(logs) {
		if !ok || item.notBefore.Before(first) {
			first, ok = item.notBefore, true
		}
	}
	return first, ok, ctx.Err()
}

// change changes the item that is in one of the given states.
func (o *outbox) change(ctx context.Context, item worklog.Item, change func(*owed), states ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.items {
		if known.Entry.ID == item.Entry.ID && known.Log == item.Log && slices.Contains(states, known.state) {
			change(known)
			return nil
		}
	}
	return errors.New("there is no such item in such a state")
}

func (o *outbox) Hurry(ctx context.Context, latest time.Time, log claim.Log) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, item := range o.waiting([]claim.Log{log}) {
		if item.notBefore.After(latest) {
			item.notBefore = latest
		}
	}
	return ctx.Err()
}

func (o *outbox) MarkSending(ctx context.Context, item worklog.Item, at time.Time) error {
	return o.change(ctx, item, func(i *owed) { i.state, i.SentAt, i.Tries = "sending", at, i.Tries+1 }, "due", "in doubt")
}

func (o *outbox) MarkInDoubt(ctx context.Context, item worklog.Item, notBefore time.Time, _ error) error {
	return o.change(ctx, item, func(i *owed) { i.state, i.InDoubt, i.notBefore = "in doubt", true, notBefore }, "sending", "in doubt")
}

func (o *outbox) Retry(ctx context.Context, item worklog.Item, notBefore time.Time, _ error) error {
	return o.change(ctx, item, func(i *owed) { i.state, i.InDoubt, i.notBefore = "due", false, notBefore }, "sending", "in doubt")
}

func (o *outbox) Delivered(ctx context.Context, item worklog.Item, at time.Time) error {
	return o.change(ctx, item, func(i *owed) { i.state, i.delivered = "delivered", at }, "sending", "in doubt")
}

// fate is what becomes of one request to create an entry.
type fate struct {
	lost bool          // it never lands
	late time.Duration // else it lands that much later
	err  error         // what the sender is told
}

// database is a log database.
type database struct {
	// lag is how far Find is behind.
	lag time.Duration
	// create decides what becomes of the nth request (from 0) for an entry; nil
	// has all of them succeed.
	create func(ctx context.Context, id string, n int) fate

	mu      sync.Mutex
	sent    map[string][]time.Time
	landed  map[string][]time.Time
	lookups map[string][]time.Time
}

func newDatabase() *database {
	return &database{
		sent: make(map[string][]time.Time), landed: make(map[string][]time.Time), lookups: make(map[string][]time.Time),
	}
}

func (d *database) Create(ctx context.Context, e worklog.Entry) error {
	d.mu.Lock()
	n := len(d.sent[e.ID])
	d.sent[e.ID] = append(d.sent[e.ID], time.Now())
	d.mu.Unlock()
	var f fate
	if d.create != nil {
		f = d.create(ctx, e.ID, n)
	}
	if !f.lost {
		d.mu.Lock()
		d.landed[e.ID] = append(d.landed[e.ID], time.Now().Add(f.late))
		d.mu.Unlock()
	}
	return f.err
}

func (d *database) Find(_ context.Context, e worklog.Entry) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := e.ID
	d.lookups[id] = append(d.lookups[id], time.Now())
	seen := time.Now().Add(-d.lag)
	return slices.ContainsFunc(d.landed[id], func(at time.Time) bool { return !at.After(seen) }), nil
}

// requests is how many requests the database has had to create entries.
func (d *database) requests() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, times := range d.sent {
		n += len(times)
	}
	return n
}

// world is an outbox, the logs it is owed to, and the drainers between them.
type world struct {
	*testing.T
	outbox     *outbox
	mesh, work *database
	drainers   map[claim.Log]*worklog.Drainer
	began      time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, outbox: &outbox{}, mesh: newDatabase(), work: newDatabase(), began: time.Now()}
	w.start()
	return w
}

// start has a new process take over the outbox.
func (w *world) start() {
	w.outbox.restart()
	w.drainers = make(map[claim.Log]*worklog.Drainer)
	for log, db := range map[claim.Log]*database{claim.MeshLog: w.mesh, claim.TaskLog: w.work} {
		w.drainers[log] = worklog.NewDrainer(w.outbox, log, db, slog.New(slog.NewTextHandler(w.Output(), nil)))
	}
}

// pass has the drainers run whenever they want to for that long, each by itself.
func (w *world) pass(long time.Duration) {
	w.Helper()
	end := time.Now().Add(long)
	var running sync.WaitGroup
	for log, drainer := range w.drainers {
		running.Go(func() {
			for range 1000 {
				if _, err := drainer.RunOnce(w.Context()); err != nil {
					w.Errorf("a run for the %s log failed: %v", log, err)
					return
				}
				next, ok, err := drainer.NextAt(w.Context())
				if err != nil {
					w.Errorf("the %s log: %v", log, err)
					return
				}
				if !ok || next.After(end) {
					time.Sleep(time.Until(end))
					return
				}
				time.Sleep(time.Until(next))
			}
			w.Errorf("the drainer of the %s log does not rest", log)
		})
	}
	running.Wait()
}

// wantOnce fails the test unless each entry is in the log once, and known to be.
func (w *world) wantOnce(log *database, ids ...string) {
	w.Helper()
	for _, id := range ids {
		if n := len(log.landed[id]); n != 1 {
			w.Errorf("entry %s is there %d times, want once", id, n)
		}
		if state := w.item(id).state; state != "delivered" {
			w.Errorf("entry %s is %s, want delivered", id, state)
		}
	}
}

func (w *world) item(id string) *owed {
	w.Helper()
	for _, item := range w.outbox.items {
		if item.Entry.ID == id {
			return item
		}
	}
	w.Fatalf("no item %s", id)
	return nil
}

// since returns how long after the beginning each of the times was.
func (w *world) since(times []time.Time) (out []time.Duration) {
	for _, at := range times {
		out = append(out, at.Sub(w.began))
	}
	return out
}
