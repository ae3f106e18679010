package daemon_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// During a pause that Notion asked for, nobody waits for a sync, and questions are answered from
// the mirror, and say so.
func TestSyncInAPause(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("held", nil)
		n := w.daemon(nil)
		n.mustClaim("Sandman", "")
		time.Sleep(time.Minute)
		w.notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 4 * time.Minute, Times: 1})
		began := time.Now()
		time.Sleep(config.Default().Sync.Interval + 10*time.Second)
		for _, full := range []bool{false, true} {
			start := time.Now()
			_, err := n.Sync(w.Context(), api.SyncRequest{Full: full}, "")
			problem, ok := errors.AsType[*api.Problem](err)
			if !ok || code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 0 ||
				problem.RetryAfter < 180 || problem.RetryAfter > 270 {
				w.Errorf("sync (full: %v) = %v after %v, want notion_unavailable at once, and when to try again", full, err, time.Since(start))
			}
		}
		if list, err := n.Tasks(w.Context(), api.TaskFilter{}); err != nil || !list.Stale {
			w.Errorf("tasks: %+v, %v; want them out of date", list.Age, err)
		}
		if s := n.status(); !s.Mirror.Stale || s.Notion.PausedUntil.IsZero() {
			w.Errorf("mirror = %+v, notion = %+v; want it out of date, and why", s.Mirror, s.Notion)
		}
		if _, err := n.claim("Oracle", ""); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Errorf("next = %v, want notion_unavailable", err)
		}
		time.Sleep(time.Until(began.Add(5 * time.Minute)))
		if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" {
			w.Errorf("after the pause, mirror = %+v, notion = %+v", s.Mirror, s.Notion)
		}
		if _, err := n.claim("Oracle", ""); code(err) != string(claim.CodeNothingReady) {
			w.Errorf("next = %v, want nothing_ready", err)
		}
	})
}

// An awaited sync ends when a pause begins, even if another request got the pause.
func TestSyncWhenAPauseBegins(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("task", nil)
		n := w.daemon(nil)
		time.Sleep(time.Minute + time.Second)
		w.notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 10 * time.Minute, Times: 1})
		start := time.Now()
		if _, err := n.Sync(w.Context(), api.SyncRequest{}, ""); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 10*time.Second {
			w.Errorf("sync = %v after %v, want notion_unavailable soon", err, time.Since(start))
		}
	})
}

// Nobody waits for a dependency that is read during a claim, either.
func TestADependencyInAPause(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		needed := w.add("finished long ago", map[string]any{"status": option("status", "COMPLETED")})
		time.Sleep(48 * time.Hour)
		id := w.add("task", nil)
		n := w.daemon(nil)
		w.edit(id, map[string]any{"depends_on": relation(needed)})
		w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + needed, Kind: emulator.RateLimited429, RetryAfter: 10 * time.Minute, Times: 1})
		start := time.Now()
		if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 5*time.Second {
			w.Errorf("claim = %v after %v, want notion_unavailable soon", err, time.Since(start))
		}
	})
}

// A listing of the whole board waits for the end of a usual pause, and continues where it was.
func TestAListingOutlastsAPause(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 400 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		w.notion.Inject(emulator.Fault{
			Path: "/v1/data_sources/*/query", Skip: 2, Times: 1, Kind: emulator.RateLimited429, RetryAfter: time.Minute,
		})
		n := w.daemon(nil)
		time.Sleep(30 * time.Second)
		if s := n.status(); s.Mirror.Syncing == nil || s.Mirror.Syncing.Read != 200 || !s.Mirror.Stale {
			w.Errorf("in the pause, mirror = %+v (%+v); want 200 tasks read", s.Mirror, s.Mirror.Syncing)
		}
		start := time.Now()
		if _, err := n.Sync(w.Context(), api.SyncRequest{}, ""); code(err) != denied(claim.CodeNotionUnavailable) || time.Since(start) > 0 {
			w.Errorf("another sync = %v after %v, want notion_unavailable at once", err, time.Since(start))
		}
		time.Sleep(time.Minute)
		if s := n.status(); s.Mirror.Tasks != 400 || s.Mirror.Stale {
			w.Errorf("after it, mirror = %+v", s.Mirror)
		}
	})
}
