package arbiter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/emulator"
	"dibs/internal/notion/transport"
)

// Whatever becomes of the daemons, no minute has more requests than are allowed.
func TestBudgetHolds(t *testing.T) {
	seeds, steps := uint64(20), 40
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBudgetWorld(t, seed, arbitersim.Faults{Slow: 300 * time.Millisecond, Lost: 5}, func(w *budgetWorld, random *rand.Rand) {
				w.burst = 10 + 140*int(seed%2)
				for range steps {
					if len(w.parts) == 0 || len(w.parts) < 6 && random.IntN(4) == 0 {
						w.begin()
					}
					p := w.parts[random.IntN(len(w.parts))]
					switch random.IntN(10) {
					case 0, 1, 2:
						p.load.Store(int64(random.IntN(workers + 1)))
					case 3:
						p.asleep.Store(false)
						p.stopped.Store(true)
					case 9:
						p.asleep.Store(true)
						p.stopped.Store(true)
					case 4:
						p.stopped.Store(false)
					case 5:
						p.away.Store(true)
					case 6:
						p.away.Store(false)
					case 7: // killed
						p.kill()
						p.stopped.Store(false)
						w.parts = slices.DeleteFunc(w.parts, func(o *part) bool { return o == p })
					case 8: // ended
						p.stopped.Store(false)
						if err := p.budget.Leave(w.ctx); err != nil && !errors.Is(err, arbiter.ErrAway) {
							t.Error(err)
						}
						p.kill()
						w.parts = slices.DeleteFunc(w.parts, func(o *part) bool { return o == p })
					}
					time.Sleep(time.Duration(random.Int64N(int64(40 * time.Second))))
				}
			})
		})
	}
}

// idle is a sender with nothing to do.
type idle struct{}

func (idle) SetShare(int, func() bool)     {}
func (idle) Load() (counting, waiting int) { return 0, 0 }

// Members that join at the same moment have a share at once, all of them.
func TestBudgetsThatBeginTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := arbitersim.NewPool(arbiter.SlotTime)
		var all sync.WaitGroup
		for i := range uint64(14) {
			b := arbiter.NewBudget(arbiter.BudgetConfig{
				Sender: idle{}, Rate: func() float64 { return 3 },
				Pool: arbitersim.FaultyPool(pool, arbitersim.Faults{Seed: i, Slow: 30 * time.Millisecond}),
			})
			all.Go(func() {
				if err := b.Round(t.Context()); err != nil || b.Share() < 9 {
					t.Errorf("member %d may send %d a minute, %v", i, b.Share(), err)
				}
			})
		}
		all.Wait()
	})
}

// What is not needed by one is there for another, each has a share at once, and who has much
// to do gets nearly all.
func TestBudgetIsSharedByNeed(t *testing.T) {
	inBudgetWorld(t, 1, arbitersim.Faults{}, func(w *budgetWorld, _ *rand.Rand) {
		a := w.begin()
		if n := a.budget.Share(); n < 3 {
			t.Errorf("a member that begins alone may send %d a minute", n)
		}
		a.load.Store(workers)
		time.Sleep(5 * time.Minute)
		if n := a.since(time.Now().Add(-time.Minute)); n < 140 {
			t.Errorf("a member alone sent %d in a minute", n)
		}
		b := w.begin()
		if n := b.budget.Share(); n < 9 {
			t.Errorf("a member that joins a busy one may send %d a minute", n)
		}
		b.load.Store(workers)
		time.Sleep(5 * time.Minute)
		from := time.Now().Add(-time.Minute)
		if x, y := a.since(from), b.since(from); x < 70 || y < 70 {
			t.Errorf("two busy members sent %d and %d in a minute", x, y)
		}
		a.load.Store(0)
		time.Sleep(5 * time.Minute)
		if n, idle := b.since(time.Now().Add(-time.Minute)), a.budget.Share(); n < 130 || idle < 9 {
			t.Errorf("beside an idle member, which may send %d, a busy one sent %d in a minute", idle, n)
		}
		a.kill() // without a word
		time.Sleep(4 * time.Minute)
		if n := b.since(time.Now().Add(-time.Minute)); n < 140 {
			t.Errorf("after the other was killed, one sent %d in a minute", n)
		}
		for range 20 {
			w.begin()
		}
		time.Sleep(5 * time.Minute)
		for i, p := range w.parts[2:] {
			if n := p.budget.Share(); n < 3 {
				t.Errorf("idle member %d of many may send %d a minute", i, n)
			}
		}
	})
}

// A member that is cut off goes on for a while with what it has, and then sends nothing: whoever
// waits is told so. When it is back it has its share again.
func TestBudgetOfOneCutOff(t *testing.T) {
	inBudgetWorld(t, 1, arbitersim.Faults{}, func(w *budgetWorld, _ *rand.Rand) {
		a := w.begin()
		a.load.Store(workers)
		time.Sleep(time.Minute)
		a.away.Store(true)
		time.Sleep(20 * time.Second)
		if n := a.since(time.Now().Add(-15 * time.Second)); n == 0 {
			t.Error("a member that was cut off a moment ago sends nothing")
		}
		time.Sleep(20 * time.Second)
		from := time.Now()
		time.Sleep(time.Minute)
		if n := a.since(from); n != 0 {
			t.Errorf("a member that is cut off sent %d", n)
		}
		_, err := a.carrier.Permit(w.ctx, 2)
		if err == nil || transport.RetryAfter(err) <= 0 {
			t.Errorf("a permit without a share: %v", err)
		}
		a.away.Store(false)
		time.Sleep(10 * time.Second)
		if _, err := a.carrier.Permit(w.ctx, 2); err != nil {
			t.Errorf("a permit afterwards: %v", err)
		}
	})
}

// A server that counts in fixed minutes, as Notion does, never refuses a request, whatever
// befalls daemons that want more than there is.
func TestBudgetAtAServerThatCounts(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBudgetWorld(t, seed, arbitersim.Faults{Slow: 300 * time.Millisecond, Lost: 3}, func(w *budgetWorld, random *rand.Rand) {
				notion, err := emulator.New(emulator.Options{Limit: int(w.rate * 60)})
				if err != nil {
					t.Fatal(err)
				}
				defer notion.Close()
				w.notion, w.burst = notion.Client().Transport, 150
				for range 4 {
					w.begin().load.Store(workers)
				}
				for range 30 {
					p := w.parts[random.IntN(len(w.parts))]
					switch random.IntN(4) {
					case 0:
						p.load.Store(int64(random.IntN(2) * workers))
					case 1:
						p.stopped.Store(!p.stopped.Load())
					case 2:
						p.away.Store(!p.away.Load())
					case 3:
						p.kill()
						p.stopped.Store(false)
						w.parts = slices.DeleteFunc(w.parts, func(o *part) bool { return o == p })
						w.begin().load.Store(workers)
					}
					time.Sleep(time.Duration(random.Int64N(int64(30 * time.Second))))
				}
				w.stop()
				sent, most := notion.Requests(), 0
				minutes := make(map[time.Duration]int)
				for _, r := range sent {
					if r.Status == http.StatusTooManyRequests {
						t.Fatalf("request %v after the first was one too many", r.Time.Sub(sent[0].Time))
					}
					minutes[r.Time.Sub(sent[0].Time)/time.Minute]++
				}
				for _, n := range minutes {
					most = max(most, n)
				}
				if most < 120 { // of 180
					t.Errorf("no minute has more than %d requests: this tests nothing", most)
				}
			})
		})
	}
}

// A member whose run was over before its time, so that others may have its slots already, sends
// nothing for as long as that could matter, and has its share again then.
func TestBudgetThatIsOverTooEarly(t *testing.T) {
	inBudgetWorld(t, 1, arbitersim.Faults{}, func(w *budgetWorld, _ *rand.Rand) {
		a := w.begin()
		a.load.Store(workers)
		time.Sleep(2 * time.Minute)
		w.pool.End()
		time.Sleep(7 * time.Second) // until it has asked again
		from := time.Now()
		time.Sleep(85 * time.Second)
		if n := a.since(from); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
		time.Sleep(time.Minute)
		if n := a.since(time.Now().Add(-30 * time.Second)); n == 0 {
			t.Error("nothing was sent afterwards")
		}
	})
}

// A member that begins soon after its etcd was adopted sends nothing before slots that may have
// been somebody else's have rested, whatever its clock has done since.
func TestBudgetAfterAdoption(t *testing.T) {
	for name, tt := range map[string]struct{ ago, rests time.Duration }{
		"long ago":               {time.Hour, 0},
		"a while ago":            {35 * time.Second, 60 * time.Second},
		"just now":               {0, 95 * time.Second},
		"the clock was set back": {-time.Hour, 95 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := arbiter.NewBudget(arbiter.BudgetConfig{
					Sender: idle{}, Rate: func() float64 { return 3 }, Pool: arbitersim.NewPool(arbiter.SlotTime),
					Adopted: time.Now().Round(0).Add(-tt.ago),
				})
				began := time.Now()
				for b.Share() == 0 {
					if time.Since(began) > 2*time.Minute {
						t.Fatal("it has no share at all")
					}
					if err := b.Round(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				if rested := time.Since(began) - time.Second; rested != tt.rests {
					t.Errorf("slots rest for %v, want %v", rested, tt.rests)
				}
			})
		})
	}
}

// A member that adopts another etcd while it works sends nothing from then on, before slots that
// may have been somebody else's have rested.
func TestBudgetRestsFromTheAdoptionOn(t *testing.T) {
	inBudgetWorld(t, 1, arbitersim.Faults{}, func(w *budgetWorld, _ *rand.Rand) {
		a := w.begin()
		a.load.Store(workers)
		time.Sleep(2 * time.Minute)
		if err := a.budget.Rest(w.ctx); err != nil {
			t.Fatal(err)
		}
		if n := a.budget.Share(); n != 0 {
			t.Errorf("it may send %d a minute", n)
		}
		time.Sleep(8 * time.Second) // until what was permitted has arrived
		from := time.Now()
		time.Sleep(86 * time.Second)
		if n := a.since(from); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
		time.Sleep(time.Minute)
		if n := a.since(time.Now().Add(-30 * time.Second)); n == 0 {
			t.Error("nothing was sent afterwards")
		}
	})
}

// When etcd was adopted is remembered by the next run, and it is not when it was joined.
func TestAdoptionIsRemembered(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	a := join(t, etcd.URL(), folder)
	if err := a.Upkeep(t.Context()); err != nil || !a.etcd.Adopted().IsZero() {
		t.Fatalf("joined, and adopted at %v: %v", a.etcd.Adopted(), err)
	}
	before := time.Now().Round(0)
	if err := a.etcd.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.close()
	a = join(t, etcd.URL(), folder)
	if at := a.etcd.Adopted(); at.Before(before) || at.After(time.Now()) {
		t.Errorf("adopted at %v, after %v", at, before)
	}
}

// Who has to send something waits for a share, and is told in the end why there is none.
func TestBudgetIsWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		adopted bool
		given   time.Duration // after which another one gives slots back; 0 for never
		want    string
	}{
		"given back": {given: 20 * time.Second},
		"never":      {want: "all of its 60 slots are with other daemons (1)"},
		"resting":    {adopted: true, want: "rest for 35s more"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := arbitersim.NewPool(time.Hour)
				other, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var all arbiter.Change
				for n := range arbiter.Slots {
					all.Take = append(all.Take, n)
				}
				if _, err := pool.Change(t.Context(), other, all); err != nil {
					t.Fatal(err)
				}
				c := arbiter.BudgetConfig{Sender: idle{}, Rate: func() float64 { return 3 }, Pool: pool}
				if tt.adopted {
					c.Adopted = time.Now().Round(0)
				}
				if tt.given > 0 {
					time.AfterFunc(tt.given, func() {
						now, err := pool.Extend(t.Context(), other)
						if err == nil {
							_, err = pool.Change(t.Context(), other, arbiter.Change{Give: map[int]arbiter.Slot{7: now.Slots[7]}})
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				began, b := time.Now(), arbiter.NewBudget(c)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = b.Wait(ctx)
				took := time.Since(began)
				switch {
				case tt.want == "" && (err != nil || b.Share() != 3 || took > tt.given+2*time.Second):
					t.Errorf("after %v it may send %d a minute, %v", took, b.Share(), err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || took != time.Minute):
					t.Errorf("after %v: %v; want %s", took, err, tt.want)
				}
			})
		})
	}
}

// A pool, in memory and in etcd: slots are had by one at a time, given back only as they are,
// and gone with their run.
func TestPool(t *testing.T) {
	for name, pool := range map[string]func(t *testing.T) arbiter.Pool{
		"memory": func(*testing.T) arbiter.Pool { return arbitersim.NewPool(arbiter.SlotTime) },
		"etcd":   func(t *testing.T) arbiter.Pool { return join(t, arbitertest.Start(t).URL(), t.TempDir()).etcd },
	} {
		t.Run(name, func(t *testing.T) {
			p, ctx := pool(t), t.Context()
			begin := func() string {
				run, err := p.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return run
			}
			change := func(run string, c arbiter.Change, want bool) {
				t.Helper()
				if done, err := p.Change(ctx, run, c); err != nil || done != want {
					t.Errorf("%+v: %v, %v, want %v", c, done, err, want)
				}
			}
			a, b := begin(), begin()
			change(a, arbiter.Change{Want: 5, Take: []int{0, 7}}, true)
			change(b, arbiter.Change{Want: 2, Take: []int{1, 7}}, false)
			change(b, arbiter.Change{Want: 2, Take: []int{1}}, true)
			s, err := p.Extend(ctx, a)
			if err != nil || len(s.Slots) != 3 || s.Slots[0].Run != a || s.Slots[7].Run != a || s.Slots[1].Run != b || s.Wants[a] != 5 || s.Wants[b] != 2 {
				t.Fatalf("%+v, %v", s, err)
			}
			give := arbiter.Change{Want: 1, Give: map[int]arbiter.Slot{7: s.Slots[7]}}
			change(a, give, true)
			change(a, arbiter.Change{Want: 1, Take: []int{7}}, true)
			change(a, give, false) // that came late, and it is another one
			change(a, arbiter.Change{}, true)
			if s, err := p.Extend(ctx, b); err != nil || len(s.Slots) != 3 || s.Slots[7].Run != a || len(s.Wants) != 1 {
				t.Errorf("%+v, %v", s, err)
			}
			if _, err := p.Extend(ctx, "7f"); !errors.Is(err, arbiter.ErrOver) {
				t.Errorf("a run that is none: %v", err)
			}
		})
	}
}
