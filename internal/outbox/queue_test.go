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
)

var (
	unknown = claim.Errorf(claim.Unavailable, claim.LandedUnknown, "503")
	saved   = claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")
	refused = claim.Errorf(claim.Refused, claim.LandedNo, "400")
)

// Whatever becomes of the first request for an entry, whatever the sender is told and however late the
// entry shows, it is there once in the end. It is looked for no more often than is good for the budget.
func TestExactlyOnce(t *testing.T) {
	limited := claim.Errorf(claim.Unavailable, claim.LandedNo, "429")
	limited.RetryAfter = 20 * time.Minute
	at := func(times ...time.Duration) []time.Duration { return times }
	for name, tt := range map[string]struct {
		first fate
		lag   time.Duration
		// sent and delivered count from the beginning.
		sent      []time.Duration
		delivered time.Duration
		lookups   int
	}{
		"created":                           {fate{}, 0, at(0), 0, 0},
		"503, and said to be saved":         {fate{err: saved}, 0, at(0), 0, 0},
		"503, and saved":                    {fate{err: unknown}, 0, at(0), 5 * time.Second, 1},
		"cut off, landing at once":          {fate{err: context.DeadlineExceeded}, 0, at(0), 5 * time.Second, 1},
		"landing within the first half":     {fate{err: unknown, late: 20 * time.Second}, 0, at(0), 35 * time.Second, 2},
		"landing a minute later":            {fate{err: unknown, late: time.Minute}, 0, at(0), 65 * time.Second, 3},
		"landing after three minutes":       {fate{err: unknown, late: 3 * time.Minute}, 0, at(0), 185 * time.Second, 7},
		"a query two minutes behind":        {fate{err: unknown}, 2 * time.Minute, at(0), 125 * time.Second, 5},
		"a minute late, two minutes behind": {fate{err: unknown, late: time.Minute}, 2 * time.Minute, at(0), 185 * time.Second, 7},
		"lost":                              {fate{err: unknown, lost: true}, 0, at(0, 185*time.Second), 185 * time.Second, 7},
		"refused":                           {fate{err: refused, lost: true}, 0, at(0, 15*time.Second), 15 * time.Second, 0},
		"left alone for as long as asked":   {fate{err: limited, lost: true}, 0, at(0, 20*time.Minute), 20 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mesh.lag, w.mesh.create = tt.lag, firstly(1, tt.first)
				w.owe(outbox.MeshEntry, "e")
				w.pass(time.Hour)
				w.wantOnce(w.mesh, "e")
				if sent := w.since(w.mesh.sent["e"]); !slices.Equal(sent, tt.sent) {
					t.Errorf("sent after %v, want %v", sent, tt.sent)
				}
				if got := w.row("e").DeliveredAt.Sub(w.began); got != tt.delivered {
					t.Errorf("known to be delivered after %v, want %v", got, tt.delivered)
				}
				for i, at := range w.since(w.mesh.lookups["e"]) {
					if want := 5*time.Second + time.Duration(i)*30*time.Second; at != want || i >= tt.lookups {
						t.Errorf("look %d after %v, want %d, each 30 seconds after the last", i+1, at, tt.lookups)
					}
				}
			})
		})
	}
}

// One log takes nothing for an hour: it refuses everything, or answers nothing that tells what became of
// an entry. It is asked less and less, all that it is owed is kept, and the other log does not notice.
func TestALogThatTakesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		fate
		says string // the log's trouble, empty if there is none to be told of
		most int    // so many requests within an hour
	}{
		"refused":                         {fate{lost: true, err: refused}, "400", 32},
		"unanswered, and nothing lands":   {fate{lost: true, err: unknown, takes: 10 * time.Second}, "503", 60},
		"unanswered, and all of it lands": {fate{err: unknown, takes: 10 * time.Second}, "", 40},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				mended := false
				w.mesh.create = func(context.Context, string, int) fate {
					if mended {
						return fate{}
					}
					return tt.fate
				}
				mesh, work := named("m", 40), named("w", 40)
				w.owe(outbox.MeshEntry, mesh...)
				w.owe(outbox.TaskEntry, work...)
				w.pass(0)
				w.wantOnce(w.work, work...)
				first := w.mesh.requests()
				w.pass(time.Minute)
				if n := w.mesh.requests(); tt.err == refused && n != first {
					t.Errorf("the log was asked %d times at once, and %d times more within a minute", first, n-first)
				}
				if tt.says != "" {
					w.wantTroubles(outbox.MeshEntry, []string{"the mesh log takes no entries", tt.says, "tried again in"})
				}
				w.wantTroubles(outbox.TaskEntry)
				w.pass(time.Hour)
				if n := w.mesh.requests(); n < 4 || n > tt.most {
					t.Errorf("the log was asked %d times in an hour, want a few times", n)
				}
				w.owe(outbox.TaskEntry, "later")
				w.pass(0)
				w.wantOnce(w.work, "later")
				mended = true
				w.pass(20 * time.Minute)
				w.wantOnce(w.mesh, mesh...)
				w.wantTroubles(outbox.MeshEntry)
			})
		})
	}
}

// TestPoison has one entry refused for good: it waits longer and longer, and no
// other waits for it.
func TestPoison(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mesh.create = poisoned("poison", fate{lost: true, err: refused})
		w.owe(outbox.MeshEntry, "poison")
		var others []string
		for i := range 60 { // deliveries in between do not help it
			id := fmt.Sprintf("e%02d", i)
			others = append(others, id)
			w.owe(outbox.MeshEntry, id)
			w.pass(0)
			w.wantOnce(w.mesh, id)
			w.pass(time.Minute)
		}
		w.wantOnce(w.mesh, others...)
		want := []time.Duration{0}
		for _, wait := range []int{15, 30, 60, 120, 240, 480, 600, 600, 600, 600} {
			want = append(want, want[len(want)-1]+time.Duration(wait)*time.Second)
		}
		if got := w.since(w.mesh.sent["poison"]); !slices.Equal(got, want) {
			w.Errorf("the entry that is refused was sent after %v, want %v", got, want)
		}
	})
}

// TestStopped stops a drainer while it is sending. What it sent is noted, and the
// next one neither loses the entry nor doubles it.
func TestStopped(t *testing.T) {
	for name, tt := range map[string]struct {
		first     fate
		sent      int
		delivered time.Duration // after the next start
	}{
		"before it was sent": {first: fate{lost: true, err: claim.Errorf(claim.Unavailable, claim.LandedNo, "stopped")}, sent: 2},
		"and it lands":       {first: fate{err: unknown}, sent: 1, delivered: 5 * time.Second},
		"and it lands later": {first: fate{late: time.Minute, err: unknown}, sent: 1, delivered: 65 * time.Second},
		"and it is lost":     {first: fate{lost: true, err: unknown}, sent: 2, delivered: 185 * time.Second},
		"and it was created": {first: fate{}, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mesh.create = func(ctx context.Context, _ string, n int) fate {
					if n > 0 {
						return fate{}
					}
					<-ctx.Done()
					return tt.first
				}
				w.owe(outbox.MeshEntry, "e")
				ctx, stop := context.WithCancel(w.Context())
				time.AfterFunc(time.Second, stop)
				if _, err := w.queues[outbox.MeshEntry].RunOnce(ctx); err != nil {
					t.Errorf("the run that was stopped: %v", err)
				}
				if state := w.row("e").State; state == "sending" {
					t.Error("what became of the entry was not noted")
				}
				w.start()
				again := time.Now()
				w.pass(time.Hour)
				w.wantOnce(w.mesh, "e")
				if n := w.mesh.requests(); n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
				if got := max(0, w.row("e").DeliveredAt.Sub(again)); got != tt.delivered {
					t.Errorf("known to be delivered %v after the next start, want %v", got, tt.delivered)
				}
			})
		})
	}
}

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
	if o.down != nil { // otherwise nobody has to wait
		o.awaits++
	}
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
	inWorld(t, func(w *world) {
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
	inWorld(t, func(w *world) {
		w.mesh.create = firstly(4, fate{lost: true, err: refused})
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
				inWorld(t, func(w *world) {
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

// wantTroubles fails the test unless the log's drainer tells of as many troubles, each
// with these words in it.
func (w *world) wantTroubles(log outbox.Kind, want ...[]string) {
	w.Helper()
	got := w.queues[log].Troubles()
	if len(got) != len(want) {
		w.Errorf("troubles of the %s log: %q, want %d", log, got, len(want))
		return
	}
	for i, words := range want {
		for _, word := range words {
			if !strings.Contains(got[i], word) {
				w.Errorf("trouble %q does not say %q", got[i], word)
			}
		}
	}
}

// TestUnansweredEntry has the requests for one entry go unanswered for good, while all
// others are taken: it is sent less and less often, and named.
func TestUnansweredEntry(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mesh.create = poisoned("poison", fate{lost: true, err: unknown})
		w.owe(outbox.MeshEntry, "poison")
		w.pass(time.Second)
		w.wantTroubles(outbox.MeshEntry) // it may be there
		for i := range 120 {
			id := fmt.Sprintf("e%03d", i)
			w.owe(outbox.MeshEntry, id)
			w.pass(time.Minute)
			w.wantOnce(w.mesh, id)
		}
		sent := w.since(w.mesh.sent["poison"])
		last := time.Duration(0)
		for i := 2; i < len(sent); i++ {
			pause := sent[i] - sent[i-1]
			if pause < last && last < 10*time.Minute {
				t.Errorf("sent at %v: the pauses do not grow", sent)
				break
			}
			last = pause
		}
		if n := len(sent); n < 5 || n > 15 {
			t.Errorf("sent %d times in two hours, want a few times", n)
		}
		w.wantTroubles(outbox.MeshEntry, []string{"entry poison of the mesh log", "Sandman claimed “poison”", "503", "kept"})
	})
}

// TestRefusedEntriesAreNamed names the entries that are refused, and not too many.
func TestRefusedEntriesAreNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mesh.create = poisoned("p", fate{lost: true, err: refused})
		for i := range 5 {
			w.owe(outbox.MeshEntry, fmt.Sprintf("p%d", i))
			w.pass(0)
			w.owe(outbox.MeshEntry, fmt.Sprintf("e%d", i))
			w.pass(0)
		}
		w.wantTroubles(outbox.MeshEntry, []string{"entry p0", "400"}, []string{"entry p1"}, []string{"entry p2"}, []string{"2 more"})
	})
}

// TestNotionIsDown has nothing be sent because Notion as a whole is down. That is no
// entry's fault, nor the log's: nothing is named, and once Notion is back nothing waits.
func TestNotionIsDown(t *testing.T) {
	inWorld(t, func(w *world) {
		down := claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion is down")
		down.RetryAfter = 5 * time.Second
		w.mesh.create = func(context.Context, string, int) fate {
			if time.Since(w.began) < time.Hour {
				return fate{lost: true, err: down}
			}
			return fate{}
		}
		mesh := named("m", 10)
		w.owe(outbox.MeshEntry, mesh...)
		w.pass(time.Hour - time.Second)
		w.wantTroubles(outbox.MeshEntry)
		w.pass(6 * time.Second)
		w.wantOnce(w.mesh, mesh...)
		for _, id := range mesh {
			if at := w.row(id).DeliveredAt.Sub(w.began); at > time.Hour+5*time.Second {
				t.Errorf("%s was delivered after %v", id, at)
			}
		}
		w.wantTroubles(outbox.MeshEntry)
	})
}

// TestOneRefusedEntryInAQuietLog has one entry be refused again and again while there is
// nothing else to deliver. The next one is delivered at once all the same.
func TestOneRefusedEntryInAQuietLog(t *testing.T) {
	for name, err := range map[string]error{"refused": refused, "unanswered": unknown} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mesh.create = poisoned("poison", fate{lost: true, err: err})
				w.owe(outbox.MeshEntry, "poison")
				w.pass(3 * time.Hour)
				w.owe(outbox.MeshEntry, "next")
				w.pass(0)
				w.wantOnce(w.mesh, "next")
			})
		})
	}
}

// TestClockJumpsWhileInDoubt sets the machine's clock while an entry is there that
// queries do not show yet. However long the clock says that ago is, it is not sent
// again before it must have shown.
func TestClockJumpsWhileInDoubt(t *testing.T) {
	for name, restart := range map[string]bool{"while the daemon runs": false, "before the next one starts": true} {
		for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			t.Run(name+", "+jump.String(), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.mesh.lag = 100 * time.Second
					w.mesh.create = func(_ context.Context, _ string, _ int) fate { return fate{err: unknown} }
					w.owe(outbox.MeshEntry, "e")
					w.pass(time.Second)
					if w.ledger.Shift(jump); restart {
						w.start()
					}
					w.pass(15 * time.Minute)
					w.wantOnce(w.mesh, "e")
				})
			})
		}
	}
}

// TestClockSetBackWhileWaiting sets the clock back by an hour while an entry that was
// refused waits to be sent again, and no daemon runs. The next one does not wait for
// that hour.
func TestClockSetBackWhileWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mesh.create = firstly(1, fate{lost: true, err: refused})
		w.owe(outbox.MeshEntry, "e")
		w.pass(time.Second)
		w.ledger.Shift(-time.Hour)
		w.start()
		again := time.Now()
		w.pass(2 * time.Hour)
		w.wantOnce(w.mesh, "e")
		if took := w.row("e").DeliveredAt.Sub(again); took > 10*time.Minute {
			t.Errorf("delivered %v after the next start, want it within ten minutes", took)
		}
	})
}
