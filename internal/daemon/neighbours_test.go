package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit"
)

// TestTwoDaemonsSeeEachOthersClaims runs two daemons on one board: each treats the other's claims
// like a person's edits.
func TestTwoDaemonsSeeEachOthersClaims(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		waits := w.add("waits", map[string]any{"depends_on": relation(id)})
		a, b := w.daemon(nil), w.daemon(nil)
		time.Sleep(time.Minute)
		both := func(want ...string) {
			w.Helper()
			time.Sleep(interval)
			a.wantEvents(0, want...)
			b.wantEvents(0, want...)
		}
		cl := a.mustClaim("Sandman", id)
		both(`claimed Sandman "work"`)
		if _, err := b.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
		mustDo(w, a.complete(cl))
		both(`claimed Sandman "work"`, `completed Sandman "work"`, `ready "waits"`)
		cl = b.mustClaim("Oracle", waits)
		both(`claimed Sandman "work"`, `completed Sandman "work"`, `ready "waits"`, `claimed Oracle "waits"`)
		if _, err := b.Release(w.Context(), string(cl.ID), api.StopRequest{}, ""); err != nil {
			w.Fatal(err)
		}
		both(`claimed Sandman "work"`, `completed Sandman "work"`, `ready "waits"`, `claimed Oracle "waits"`, `released Oracle "waits"`, `ready "waits"`)
	})
}

// TestOneOfTwoDaemonsTakesAStaleClaim overrides, at one daemon, a claim made at the other.
func TestOneOfTwoDaemonsTakesAStaleClaim(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		slow := func(c *config.Config) { c.Schedule.Sweep = "@every 100h" }
		a, b := w.daemon(slow), w.daemon(slow)
		cl := a.mustClaim("Sandman", id)
		time.Sleep(33 * time.Minute)
		afterA, afterB := a.last(), b.last()
		b.mustClaim("Oracle", id)
		b.wantEvents(afterB, `overridden Sandman Oracle "work"`)
		got, err := a.Watch(w.Context(), string(cl.ID), "", afterA, time.Hour)
		if err != nil || got.Event == nil || got.Event.Kind != api.ClaimLost || got.Event.Holder != "Oracle" {
			w.Errorf("event = %+v, err = %v; want claim_lost to Oracle", got.Event, err)
		}
		time.Sleep(interval)
		a.wantEvents(afterA, `claim_lost Sandman Oracle "work"`, `reassigned Sandman Oracle "work"`)
	})
}

func TestNextGoesOnWhenAnotherDaemonWasFaster(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first", nil)
		time.Sleep(time.Minute)
		second := w.add("second", nil)
		a, b := w.daemon(quiet), w.daemon(quiet)
		a.mustClaim("Sandman", first)
		cl, err := b.claim("Oracle", "") // its mirror does not have Sandman's claim yet
		if err != nil || string(cl.Task.ID) != second {
			w.Errorf("claim = %v, err = %v, want %s", cl.Task.ID, err, second)
		}
	})
}

// TestTwoDaemonsNeverBothGrant races agents of two daemons for the same tasks,
// with random latencies that stay below the write window.
func TestTwoDaemonsNeverBothGrant(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	tasks := 60
	if testing.Short() {
		tasks = 15
	}
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range tasks {
			ids = append(ids, w.add(fmt.Sprint("Task ", i), nil))
		}
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		var mu sync.Mutex
		up := func(most time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(most)))
		}
		fast := func(c *config.Config) { c.Notion.Rate, c.Notion.Burst = 100, 100 }
		a, b := w.daemon(fast), w.daemon(fast)
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return up(370 * time.Millisecond), up(370 * time.Millisecond)
		})
		for _, id := range ids {
			var wg sync.WaitGroup
			results := make([]error, 2)
			delay := up(2 * time.Second)
			wg.Go(func() { _, results[0] = a.claim("Sandman", id) })
			wg.Go(func() {
				time.Sleep(delay)
				_, results[1] = b.claim("Oracle", id)
			})
			wg.Wait()
			granted := 0
			for _, err := range results {
				switch code(err) {
				case "<nil>":
					granted++
				case denied(claim.CodeHeld), denied(claim.CodeLostRace):
				default:
					w.Errorf("unexpected answer: %v", err)
				}
			}
			if granted != 1 {
				w.Errorf("task %s was granted %d times, want once", id, granted)
			}
		}
	})
}
