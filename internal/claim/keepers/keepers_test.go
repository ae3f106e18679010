package keepers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/keepers"

	"github.com/google/go-cmp/cmp"
)

// world is a machine with processes, a store of keepers and the claims of a daemon.
type world struct {
	*testing.T
	mu      sync.Mutex // guards all below
	stored  map[claim.ID][]keepers.Keeper
	claims  map[claim.ID]*claim.Hold
	dead    map[int]bool
	unheard bool            // whether a process is dead cannot be asked
	beats   []time.Duration // since the start
	ended   []string
	began   time.Time
	fails   error
}

func (w *world) Keepers(context.Context) (map[claim.ID][]keepers.Keeper, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.stored), nil
}

func (w *world) SetKeepers(_ context.Context, id claim.ID, k []keepers.Keeper) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails != nil {
		return w.fails
	}
	w.stored[id] = k
	if len(k) == 0 {
		delete(w.stored, id)
	}
	return nil
}

func (w *world) Find(_ context.Context, id claim.ID) (claim.Hold, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.claims[id]; ok {
		return *c, nil
	}
	return claim.Hold{}, claim.ErrUnknownClaim
}

func (w *world) Renew(ctx context.Context, id claim.ID) (claim.Hold, error) {
	w.mu.Lock()
	w.beats = append(w.beats, time.Since(w.began))
	w.mu.Unlock()
	return w.Find(ctx, id)
}

func (w *world) Finish(_ context.Context, id claim.ID, f claim.Finish) (claim.Hold, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails != nil {
		return claim.Hold{}, w.fails
	}
	w.ended = append(w.ended, fmt.Sprintf("%v %s %s", time.Since(w.began), f.As, f.Summary))
	w.claims[id].State = claim.Ended
	return *w.claims[id], nil
}

const id claim.ID = "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"

// inWorld runs a test with a claim that is held for ten minutes.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		test(&world{
			T: t, began: time.Now(), stored: make(map[claim.ID][]keepers.Keeper), dead: make(map[int]bool),
			claims: map[claim.ID]*claim.Hold{id: {ID: id, State: claim.Held, Lease: claim.Lease{Timeout: 2 * time.Minute}}},
		})
	})
}

// watching runs a test in a world with a watch.
func watching(t *testing.T, test func(w *world, watch *keepers.Watch)) {
	inWorld(t, func(w *world) {
		watch, stop := w.watch()
		defer stop()
		test(w, watch)
	})
}

// watch starts a watch, and returns how to stop it.
func (w *world) watch() (*keepers.Watch, func()) {
	watch, err := keepers.New(w.Context(), keepers.Config{
		Storage: w, Claims: w, Processes: w,
		Log: slog.New(slog.NewTextHandler(w.Output(), nil)),
	})
	do(w, err)
	ctx, stop := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch.Run(ctx)
	}()
	return watch, func() {
		stop()
		<-done
	}
}

func (w *world) Life(p keepers.Process) keepers.Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.unheard:
		return keepers.Unheard
	case w.dead[p.ID]:
		return keepers.Gone
	}
	return keepers.Living
}

// with changes the world.
func (w *world) with(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// ends returns what was ended so far.
func (w *world) ends() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ended)
}

func process(n int) keepers.Process { return keepers.Process{ID: n, Began: "now"} }

func (w *world) keep(watch *keepers.Watch, k keepers.Keeper) {
	w.Helper()
	do(w, watch.Keep(w.Context(), id, k))
	watch.Granted(id)
}

func (w *world) wantEnds(want ...string) {
	w.Helper()
	same(w, "claims were ended", want, w.ends())
}

func TestAProcessKeepsItsClaim(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		w.keep(watch, keepers.Keeper{Process: process(7)})
		time.Sleep(100*time.Second + time.Millisecond)
		synctest.Wait()
		want := []time.Duration{0, 30 * time.Second, time.Minute, 90 * time.Second}
		same(t, "signs of life", want, w.beats)
		w.wantEnds()
		w.with(func() { w.dead[7] = true })
		time.Sleep(time.Second)
		w.wantEnds("1m41s released process 7, which kept the claim alive, is gone")
		if len(w.stored) > 0 {
			t.Errorf("still stored: %v", w.stored)
		}
		time.Sleep(time.Hour)
		w.wantEnds(w.ends()...) // once
	})
}

// A process on a machine that says nothing keeps its claim no longer than its lease, and loses
// it no sooner.
func TestAnUnheardMachine(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		w.keep(watch, keepers.Keeper{Process: process(7)})
		time.Sleep(45 * time.Second)
		w.with(func() { w.unheard, w.dead[7] = true, true })
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(w.beats) != 2 {
			t.Errorf("signs of life: %v, want those of the first 45 seconds", w.beats)
		}
		w.wantEnds()
		w.with(func() { w.unheard = false })
		time.Sleep(time.Second)
		if ended := w.ends(); len(ended) != 1 {
			t.Errorf("ended: %v, want it given back once it is known", ended)
		}
	})
}

func TestAnotherTakesThePlace(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		w.keep(watch, keepers.Keeper{Process: process(7), Grace: time.Minute})
		w.with(func() { w.dead[7] = true })
		time.Sleep(59 * time.Second)
		w.wantEnds()
		w.keep(watch, keepers.Keeper{Process: process(8)})
		time.Sleep(time.Hour)
		w.wantEnds()
		w.with(func() { w.dead[8] = true })
		time.Sleep(59 * time.Second)
		w.wantEnds() // the longest grace of all
		time.Sleep(3 * time.Second)
		if ended := w.ends(); len(ended) != 1 {
			t.Errorf("ended: %v, want it given back once", ended)
		}
	})
}

func TestConnections(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		first, err := watch.Connect(t.Context(), id, 10*time.Second)
		do(t, err)
		second, err := watch.Connect(t.Context(), id, 10*time.Second)
		do(t, err)
		first()
		time.Sleep(time.Minute)
		w.wantEnds()
		second()
		synctest.Wait()
		time.Sleep(9 * time.Second)
		w.wantEnds()
		time.Sleep(2 * time.Second)
		w.wantEnds("1m10s released the connection, which kept the claim alive, is gone")
	})
}

// What kept a claim before the daemon was killed keeps it afterwards, if it is still there.
func TestAfterARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		keeper keepers.Keeper
		dead   bool
		want   []string
	}{
		"a process that lives": {keepers.Keeper{Process: process(7)}, false, nil},
		"one that ended":       {keepers.Keeper{Process: process(7)}, true, []string{"0s released process 7, which kept the claim alive, is gone"}},
		"a connection":         {keepers.Keeper{Grace: 20 * time.Second}, false, []string{"20s released the connection, which kept the claim alive, is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.stored[id], w.dead[7] = []keepers.Keeper{tt.keeper}, tt.dead
				_, stop := w.watch()
				defer stop()
				time.Sleep(time.Minute)
				w.wantEnds(tt.want...)
			})
		})
	}
}

func TestWhatIsOverIsForgotten(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"finished": func(w *world) { w.claims[id].State = claim.Ended },
		"unknown":  func(w *world) { delete(w.claims, id) },
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(w *world, watch *keepers.Watch) {
				w.keep(watch, keepers.Keeper{Process: process(7)})
				time.Sleep(time.Second)
				w.with(func() { end(w) })
				time.Sleep(time.Minute)
				w.wantEnds()
				if len(w.stored) > 0 {
					t.Errorf("still stored: %v", w.stored)
				}
			})
		})
	}
}

// A claim that is still being made is left alone, and one that was not granted forgotten.
func TestBeforeTheGrant(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		do(t, watch.Keep(t.Context(), id, keepers.Keeper{Process: process(7)}))
		w.with(func() { w.dead[7] = true })
		time.Sleep(time.Minute)
		w.wantEnds()
		if err := watch.Forget(t.Context(), id); err != nil || len(w.stored) > 0 {
			t.Errorf("err = %v, stored %v", err, w.stored)
		}
	})
}

func TestAJournalThatFails(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		w.with(func() { w.fails = errors.New("the disk is full") })
		if err := watch.Keep(t.Context(), id, keepers.Keeper{Process: process(7)}); !errors.Is(err, w.fails) {
			t.Errorf("err = %v", err)
		}
		w.with(func() { w.fails = nil })
		w.keep(watch, keepers.Keeper{Process: process(7)})
		w.with(func() { w.fails = errors.New("the disk is full again") })
		w.with(func() { w.dead[7] = true })
		time.Sleep(time.Minute)
		w.wantEnds()
		w.with(func() { w.fails = nil })
		time.Sleep(2 * time.Second)
		if ended := w.ends(); len(ended) != 1 || !strings.Contains(ended[0], "released") {
			t.Errorf("ended: %v, want it given back once the journal works", ended)
		}
	})
}

func TestProcesses(t *testing.T) {
	if _, err := keepers.Of(0); !errors.Is(err, keepers.ErrNoProcess) {
		t.Errorf("of 0: %v", err)
	}
	me, err := keepers.Of(os.Getpid())
	if err != nil || me.UID != os.Getuid() || keepers.LifeOf(me) != keepers.Living {
		t.Fatalf("this process: %+v, %v, lives: %v", me, err, keepers.LifeOf(me))
	}
	other := me
	other.Began += " and later"
	if keepers.LifeOf(other) == keepers.Living {
		t.Error("another process of that number passes for this one")
	}
	cmd := exec.Command("sleep", "1000")
	do(t, cmd.Start())
	child, err := keepers.Of(cmd.Process.Pid)
	if err != nil || keepers.LifeOf(child) != keepers.Living {
		t.Errorf("a child: %+v, %v", child, err)
	}
	do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if keepers.LifeOf(child) == keepers.Living {
		t.Error("a process that was killed lives")
	}
}

// TestKeepersGone asks whether a claim is there to be taken over.
func TestKeepersGone(t *testing.T) {
	watching(t, func(w *world, watch *keepers.Watch) {
		orphaned := func(want bool, when string) {
			w.Helper()
			synctest.Wait()
			if got := watch.KeepersGone(id); got != want {
				w.Errorf("%s: orphaned = %v", when, got)
			}
		}
		orphaned(false, "a claim that never had a keeper")
		keep := func(pid int) {
			do(w, watch.Keep(w.Context(), id, keepers.Keeper{Process: keepers.Process{ID: pid}, Grace: time.Minute}))
		}
		keep(7)
		orphaned(false, "while the claim is being made")
		watch.Granted(id)
		orphaned(false, "while its keeper lives")
		w.with(func() { w.dead[7] = true })
		orphaned(true, "when its keeper is gone, before anybody looked")
		time.Sleep(30 * time.Second)
		orphaned(true, "within the grace")
		keep(8)
		orphaned(false, "with another keeper")
		leave, err := watch.Connect(w.Context(), id, time.Minute)
		do(w, err)
		w.with(func() { w.dead[8] = true })
		orphaned(false, "with a connection")
		leave()
		orphaned(true, "when that is gone, too")
	})
}

// do fails the test at once if there was an error.
func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same checks what came of something.
func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
