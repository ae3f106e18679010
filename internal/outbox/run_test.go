package outbox_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
)

// outage is a Notion that goes down and comes back.
type outage struct {
	mu     sync.Mutex
	down   error
	back   chan struct{}
	awaits int
}

func (o *outage) Down() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}

func (o *outage) Back() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.back
}

func (o *outage) Await() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaits++
}

func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = claim.Errorf(claim.Unavailable, claim.LandedNo, "down")
}

// end has Notion be back.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.back)
	o.down, o.back = nil, make(chan struct{})
}

// running runs a queue for the mesh log until the test ends it.
func (w *world) running(o outbox.Reach) (q *outbox.Queue, stopped chan struct{}, kill context.CancelFunc, done chan struct{}) {
	q = outbox.New(outbox.Config{Kind: outbox.MeshEntry, Ledger: w.ledger, Entries: w.mesh, Notion: o, Log: slog.New(slog.NewTextHandler(w.Output(), nil))})
	ctx, kill := context.WithCancel(w.Context())
	stopped, done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		q.Run(ctx, stopped)
	}()
	return q, stopped, kill, done
}

// A queue delivers when it is woken, and one last time when it is stopped.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.owe(outbox.MeshEntry, "before")
		q, stopped, kill, done := w.running(reach{})
		defer kill()
		synctest.Wait()
		w.wantOnce(w.mesh, "before")
		w.owe(outbox.MeshEntry, "later")
		q.Wake()
		synctest.Wait()
		w.wantOnce(w.mesh, "later")
		w.owe(outbox.MeshEntry, "last")
		close(stopped)
		<-done
		w.wantOnce(w.mesh, "last")
		if took := time.Since(w.began); took != 0 {
			t.Errorf("that took %v", took)
		}
	})
}

// What waits because it failed is delivered as soon as Notion is back. While it is down nothing
// is sent, and Notion is told that it is waited for.
func TestRunWhenNotionIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(_ context.Context, _ string, n int) fate {
			if n < 4 {
				return fate{lost: true, err: refused}
			}
			return fate{}
		}
		w.owe(outbox.MeshEntry, "e")
		o := &outage{back: make(chan struct{})}
		_, _, kill, done := w.running(o)
		time.Sleep(2 * time.Minute) // it waits for that long by now
		o.begin()
		time.Sleep(4 * time.Minute)
		if n := w.mesh.requests(); n != 4 {
			t.Errorf("%d requests, want none while Notion is down", n-4)
		}
		if o.mu.Lock(); o.awaits < 2 {
			t.Errorf("Notion was awaited %d times", o.awaits)
		}
		o.mu.Unlock()
		o.end()
		synctest.Wait()
		w.wantOnce(w.mesh, "e")
		kill()
		<-done
	})
}

// Whatever a queue waits for, it ends when it is to.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mesh.create = func(ctx context.Context, _ string, _ int) fate { return fate{lost: true, err: unknown} }
		w.owe(outbox.MeshEntry, "e")
		_, _, kill, done := w.running(reach{})
		time.Sleep(time.Second)
		kill()
		<-done
		if took := time.Since(w.began); took != time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

// Whoever waits for an intent of unknown fate has it looked for a few times, and waits no longer
// than it is let.
func TestDeliver(t *testing.T) {
	for name, tt := range map[string]struct {
		first fate
		limit time.Duration
		want  outbox.Fate
		took  time.Duration
		state outbox.State // empty if nothing is owed any more
	}{
		"taken":                  {want: outbox.Arrived, state: outbox.Delivered},
		"refused":                {first: fate{lost: true, err: refused}, want: outbox.Absent},
		"found at once":          {first: fate{err: unknown}, want: outbox.Arrived, state: outbox.Delivered},
		"found three seconds on": {first: fate{err: unknown, late: 3 * time.Second}, want: outbox.Arrived, took: 3 * time.Second, state: outbox.Delivered},
		"not found":              {first: fate{err: unknown, lost: true}, want: outbox.InDoubt, took: 8 * time.Second, state: outbox.Doubted},
		"cut off":                {first: fate{err: unknown, lost: true}, limit: 1500 * time.Millisecond, want: outbox.InDoubt, took: 1500 * time.Millisecond, state: outbox.Doubted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.mesh.create = func(context.Context, string, int) fate { return tt.first }
				ctx := t.Context()
				if tt.limit > 0 {
					limited, cancel := context.WithTimeout(ctx, tt.limit)
					defer cancel()
					ctx = limited
				}
				in, err := w.ledger.Owe(ctx, outbox.Intent{ID: "e", Kind: outbox.Creation})
				if err != nil {
					t.Fatal(err)
				}
				got, err := outbox.NewSender(w.ledger).Deliver(ctx, in, w.mesh)
				if err != nil || got.Fate != tt.want {
					t.Errorf("its fate is %+v, %v, want %d", got, err, tt.want)
				}
				if took := time.Since(w.began); took != tt.took {
					t.Errorf("known after %v, want %v", took, tt.took)
				}
				if row, _ := w.ledger.Row("e"); row.State != tt.state {
					t.Errorf("it is %q, want %q", row.State, tt.state)
				}
			})
		})
	}
}

// candidates is what an intent may have become.
type candidates []string

func (c candidates) Send(context.Context, outbox.Intent) (string, error)   { return "", unknown }
func (c candidates) Find(context.Context, outbox.Intent) ([]string, error) { return c, nil }

// What is another intent's is passed over; where nothing else is found the intent stays in doubt.
func TestSeekPassesOverWhatIsTaken(t *testing.T) {
	m := outboxtest.NewMemory()
	s := outbox.NewSender(m)
	for i, want := range []outbox.Outcome{{Fate: outbox.Arrived, Ref: "a"}, {Fate: outbox.Arrived, Ref: "b"}, {Fate: outbox.InDoubt}} {
		in, err := m.Owe(t.Context(), outbox.Intent{ID: string(rune('1' + i)), Kind: outbox.Creation})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Seek(t.Context(), in, candidates{"a", "b"})
		if err != nil || got.Fate != want.Fate || got.Ref != want.Ref {
			t.Errorf("the %d. is %+v, %v, want %+v", i+1, got, err, want)
		}
	}
}

// That Notion is back is heeded also if it happens while the queue is at work, or is woken for
// something else at the same moment: what waits because it failed is delivered then.
func TestRunWhenNotionIsBackMeanwhile(t *testing.T) {
	for name, during := range map[string]func(q *outbox.Queue, o *outage){
		"and it is woken": func(q *outbox.Queue, o *outage) {
			o.end()
			q.Wake()
		},
		"after it was woken": func(q *outbox.Queue, o *outage) {
			q.Wake()
			o.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // which of the two is seen first is chance
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.mesh.create = func(_ context.Context, id string, n int) fate {
						if id == "slow" {
							time.Sleep(time.Second)
						} else if n < 4 {
							return fate{lost: true, err: refused}
						}
						return fate{}
					}
					w.owe(outbox.MeshEntry, "e")
					o := &outage{back: make(chan struct{})}
					q, _, kill, done := w.running(o)
					time.Sleep(2 * time.Minute) // it waits for two more by now
					w.owe(outbox.MeshEntry, "slow")
					q.Wake()
					time.Sleep(time.Second / 2)
					o.begin()
					during(q, o)
					time.Sleep(time.Second)
					if at := w.row("e").State; at != outbox.Delivered {
						t.Errorf("e is %s a second after Notion is back", at)
					}
					kill()
					<-done
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

// A stop ends each wait of a queue within the moment: for something to deliver, for Notion, and after
// a failure.
func TestAStopEndsEveryWait(t *testing.T) {
	for name, begin := range map[string]func(*world, *outage){
		"nothing is owed": func(*world, *outage) {},
		"Notion is down":  func(w *world, o *outage) { w.owe(outbox.MeshEntry, "e"); o.begin() },
		"it was refused": func(w *world, _ *outage) {
			w.mesh.create = func(context.Context, string, int) fate { return fate{lost: true, err: refused} }
			w.owe(outbox.MeshEntry, "e")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := newWorld(t), &outage{back: make(chan struct{})}
				begin(w, o)
				_, stopped, kill, done := w.running(o)
				defer kill()
				time.Sleep(10 * time.Second)
				time.AfterFunc(time.Minute, kill)
				close(stopped)
				<-done
				if took := time.Since(w.began); took != 10*time.Second {
					t.Errorf("stopped after 10s, it ended after %v", took)
				}
			})
		})
	}
}
