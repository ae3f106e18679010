package claim_test

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

const (
	page      = task.ID("11111111-1111-1111-1111-111111111111")
	otherPage = task.ID("22222222-2222-2222-2222-222222222222")
)

// TestMain lets garbage lie for longer than usual: a bubble and a walk of the page of cases make much, and little of it lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// bubbleStart is when every bubble begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func openTask() task.Task {
	return task.Task{ID: page, Title: "Mend the roof", URL: "https://notion.example/roof", Status: task.Open}
}

// ghost is the claim that a stale task shows.
var ghost = claim.NewID(bubbleStart.Add(-2 * time.Hour))

// staleTask is a task that was claimed, by a program unknown here, two hours
// before the bubble began.
func staleTask() task.Task {
	t := openTask()
	t.Status, t.ClaimedBy, t.ClaimedAt = task.InProgress, "Ghost", bubbleStart.Add(-2*time.Hour)
	t.Token = string(ghost)
	return t
}

// world is a register with one task in it, in a bubble of its own.
type world struct {
	*testing.T
	*sim.Register
	ctx context.Context
}

// inWorld runs f in a bubble, with the given task in the register.
func inWorld(t *testing.T, first task.Task, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&world{T: t, Register: sim.NewRegister(first), ctx: context.WithoutCancel(t.Context())})
	})
}

// daemon starts a daemon with the default policy, reached through the faults,
// the first of which is the outermost.
func (w *world) daemon(name string, faults ...sim.Fault) *sim.Daemon {
	return w.start(sim.DaemonOptions{StoreOptions: sim.StoreOptions{Name: name}}, faults...)
}

func (w *world) start(o sim.DaemonOptions, faults ...sim.Fault) *sim.Daemon {
	w.Helper()
	if len(faults) > 0 {
		o.Fault = func(s claim.Store) claim.Store {
			for _, f := range slices.Backward(faults) {
				s = f(s)
			}
			return s
		}
	}
	d := w.Register.Daemon(o)
	w.Cleanup(func() {
		d.Close()
		if n := d.Store.Unspent(); n > 0 {
			w.Errorf("daemon %s keeps %d permits that it does not use", o.Name, n)
		}
		for i, c := range d.Store.Calls() {
			if c.Unpermitted {
				w.Errorf("daemon %s: request %d (%s) was sent without a permit", o.Name, i+1, sim.KindOf(c.Write))
			}
		}
	})
	return d
}

// request asks for the page.
func request(agent string) claim.Request {
	return claim.Request{Agent: agent, Task: task.Task{ID: page}}
}

// claim has the agent claim the page, which must be granted.
func (w *world) claim(d *sim.Daemon, agent string) claim.Hold {
	w.Helper()
	c, err := d.Claim(w.ctx, request(agent))
	if err != nil {
		w.Fatalf("%s was not granted the task: %v", agent, err)
	}
	return c
}

// entrant is an agent in a race for the page.
type entrant struct {
	daemon *sim.Daemon
	agent  string
	after  time.Duration // when it starts
}

// race lets the entrants claim the page, waits for all of them, and returns the
// claims that were granted.
func (w *world) race(entrants ...entrant) (granted []claim.Hold) {
	w.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range entrants {
		wg.Go(func() {
			time.Sleep(e.after)
			if c, err := e.daemon.Claim(w.ctx, request(e.agent)); err == nil {
				mu.Lock()
				defer mu.Unlock()
				granted = append(granted, c)
			}
		})
	}
	wg.Wait()
	return granted
}

// deny has the agent claim the page, which must be denied with the given code.
func (w *world) deny(d *sim.Daemon, agent string, code claim.Code) *claim.Denied {
	w.Helper()
	_, err := d.Claim(w.ctx, request(agent))
	denied := w.denied(err)
	if denied.Code != code {
		w.Fatalf("%s: denied as %q (%v), want %q", agent, denied.Code, denied, code)
	}
	return denied
}

// denied checks that err is a *claim.Denied and returns it.
func (w *world) denied(err error) *claim.Denied {
	w.Helper()
	denied, isDenied := errors.AsType[*claim.Denied](err)
	if !isDenied {
		w.Fatalf("error %v, want a *claim.Denied", err)
	}
	return denied
}

// lost checks that err is a *claim.Lost and returns it.
func (w *world) lost(err error) *claim.Lost {
	w.Helper()
	lost, isLost := errors.AsType[*claim.Lost](err)
	if !isLost {
		w.Fatalf("error %v, want a *claim.Lost", err)
	}
	return lost
}

// ok checks that there was no error.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// errOf returns the error of a call alone.
func errOf[T any](_ T, err error) error { return err }

// sync has the daemons run for d: each looks at the register every sync interval.
func (w *world) sync(d time.Duration, daemons ...*sim.Daemon) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(sim.SyncInterval) {
		for _, daemon := range daemons {
			var lost *claim.Lost
			if err := daemon.Sync(w.ctx); err != nil && !errors.As(err, &lost) {
				w.Logf("sync: %v", err)
			}
		}
	}
}

// record returns what the daemon's ledger says of a claim.
func (w *world) record(d *sim.Daemon, id claim.ID) claim.Hold {
	w.Helper()
	c, err := d.Ledger.Hold(w.ctx, id)
	w.ok(err)
	return c
}

// live returns what has not ended for the daemon.
func (w *world) live(d *sim.Daemon) ([]claim.Hold, []claim.Mark) {
	w.Helper()
	holds, marks, err := d.Ledger.Live(w.ctx)
	w.ok(err)
	return holds, marks
}

// only returns the only claim that the daemon's ledger has not ended, beside which there is
// no mark.
func (w *world) only(d *sim.Daemon) claim.Hold {
	w.Helper()
	holds, marks := w.live(d)
	if len(holds) != 1 || len(marks) > 0 {
		w.Fatalf("%d claims live and %d marks, want 1 claim: %+v, %+v", len(holds), len(marks), holds, marks)
	}
	return holds[0]
}

// onlyMark returns the only mark of the daemon, beside which no claim is live.
func (w *world) onlyMark(d *sim.Daemon) claim.Mark {
	w.Helper()
	holds, marks := w.live(d)
	if len(marks) != 1 || len(holds) > 0 {
		w.Fatalf("%d claims live and %d marks, want 1 mark: %+v, %+v", len(holds), len(marks), holds, marks)
	}
	return marks[0]
}

// none checks that all claims and marks of the daemon have ended.
func (w *world) none(d *sim.Daemon) {
	w.Helper()
	holds, marks := w.live(d)
	for _, c := range holds {
		w.Errorf("claim %s of %s is still %s", c.ID, c.Agent, c.State)
	}
	for _, m := range marks {
		w.Errorf("mark %s (%s) beside %s is still %s", m.ID, m.Why, m.Agent, m.State)
	}
}

// kinds returns the kinds of events that the daemon recorded, in order.
func kinds(d *sim.Daemon) []claim.Kind {
	var out []claim.Kind
	for _, e := range d.Ledger.Events() {
		out = append(out, e.Kind)
	}
	return out
}

// requests returns the kinds of requests that the daemon sent, in order.
func requests(d *sim.Daemon) []sim.Kind {
	var out []sim.Kind
	for _, c := range d.Store.Calls() {
		out = append(out, sim.KindOf(c.Write))
	}
	return out
}

// count returns how many requests of a kind the daemon sent.
func count(d *sim.Daemon, k sim.Kind) int {
	n := 0
	for _, sent := range requests(d) {
		if sent == k {
			n++
		}
	}
	return n
}

// shows checks what the page says: its status, whose it is, and the token.
func (w *world) shows(status task.Status, by, token string) {
	w.Helper()
	t := w.Page(page)
	if t.Status != status || t.ClaimedBy != by || t.Token != token {
		w.Errorf("the page shows %s, %q, token %q; want %s, %q, token %q", t.Status, t.ClaimedBy, t.Token, status, by, token)
	}
}

// same checks what came of something.
func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
