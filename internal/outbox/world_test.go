package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
)

// owe adds entries of one kind, by their ids.
func owe(m *outboxtest.Memory, kind outbox.Kind, ids ...string) {
	for _, id := range ids {
		m.AddEvents(kind, claim.Fact{ID: id, Kind: claim.KindGranted, Agent: "Sandman", Title: id})
	}
}

// fate is what becomes of one request to create an entry.
type fate struct {
	lost bool          // it never lands
	late time.Duration // else it lands that much later
	err  error         // what the sender is told
	// takes is how long it takes until then.
	takes time.Duration
}

// firstly gives the first n requests for each entry a fate.
func firstly(n int, f fate) func(context.Context, string, int) fate {
	return func(_ context.Context, _ string, i int) fate {
		if i < n {
			return f
		}
		return fate{}
	}
}

// poisoned gives the entries whose ids begin so a fate, for good.
func poisoned(prefix string, f fate) func(context.Context, string, int) fate {
	return func(_ context.Context, id string, _ int) fate {
		if strings.HasPrefix(id, prefix) {
			return f
		}
		return fate{}
	}
}

// named returns so many ids.
func named(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s%02d", prefix, i))
	}
	return ids
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

func (d *database) Send(ctx context.Context, e outbox.Intent) (string, error) {
	d.mu.Lock()
	n := len(d.sent[e.ID])
	d.sent[e.ID] = append(d.sent[e.ID], time.Now())
	d.mu.Unlock()
	var f fate
	if d.create != nil {
		f = d.create(ctx, e.ID, n)
	}
	time.Sleep(f.takes)
	if !f.lost {
		d.mu.Lock()
		d.landed[e.ID] = append(d.landed[e.ID], time.Now().Add(f.late))
		d.mu.Unlock()
	}
	return "", f.err
}

// Name implements outbox.Entries.
func (d *database) Name(in outbox.Intent) (id, title string) {
	return in.ID, "Sandman claimed “" + in.ID + "”"
}

func (d *database) Find(_ context.Context, e outbox.Intent) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := e.ID
	d.lookups[id] = append(d.lookups[id], time.Now())
	seen := time.Now().Add(-d.lag)
	if slices.ContainsFunc(d.landed[id], func(at time.Time) bool { return !at.After(seen) }) {
		return []string{""}, nil
	}
	return nil, nil
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

// reach is a Notion that is up.
type reach struct{}

func (reach) Down() error           { return nil }
func (reach) Back() <-chan struct{} { return nil }
func (reach) Await()                {}

// newQueue returns a queue of the entries of one log.
func newQueue(l outbox.Ledger, kind outbox.Kind, log outbox.Entries, logger *slog.Logger) *outbox.Queue {
	return outbox.New(outbox.Config{Kind: kind, Ledger: l, Entries: log, Notion: reach{}, Log: logger})
}

// world is a ledger, the logs it is owed to, and the queues between them.
type world struct {
	*testing.T
	ledger     *outboxtest.Memory
	mesh, work *database
	queues     map[outbox.Kind]*outbox.Queue
	began      time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, ledger: outboxtest.NewMemory(), mesh: newDatabase(), work: newDatabase(), began: time.Now()}
	w.start()
	return w
}

// inWorld runs a test in a world, in virtual time.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func (w *world) owe(kind outbox.Kind, ids ...string) { owe(w.ledger, kind, ids...) }

// start has a new process take over the ledger.
func (w *world) start() {
	w.ledger.Restart()
	w.queues = make(map[outbox.Kind]*outbox.Queue)
	for kind, db := range map[outbox.Kind]*database{outbox.MeshEntry: w.mesh, outbox.TaskEntry: w.work} {
		w.queues[kind] = newQueue(w.ledger, kind, db, slog.New(slog.NewTextHandler(w.Output(), nil)))
	}
}

// pass has the queues run whenever they want to for that long, each by itself.
func (w *world) pass(long time.Duration) {
	w.Helper()
	end := time.Now().Add(long)
	var running sync.WaitGroup
	for kind, queue := range w.queues {
		running.Go(func() {
			for range 1000 {
				if _, err := queue.RunOnce(w.Context()); err != nil {
					w.Errorf("a run for the %s log failed: %v", kind, err)
					return
				}
				next, ok, err := queue.NextAt(w.Context())
				if err != nil {
					w.Errorf("the %s log: %v", kind, err)
					return
				}
				if !ok || next.After(end) {
					time.Sleep(time.Until(end))
					return
				}
				time.Sleep(time.Until(next))
			}
			w.Errorf("the queue of the %s log does not rest", kind)
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
		if state := w.row(id).State; state != outbox.Delivered {
			w.Errorf("entry %s is %s, want delivered", id, state)
		}
	}
}

func (w *world) row(id string) outboxtest.Row {
	w.Helper()
	row, ok := w.ledger.Row(id)
	if !ok {
		w.Fatalf("no entry %s", id)
	}
	return row
}

// since returns how long after the beginning each of the times was.
func (w *world) since(times []time.Time) (out []time.Duration) {
	for _, at := range times {
		out = append(out, at.Sub(w.began))
	}
	return out
}
