package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// script is a tasks database in which things go wrong, and which notes what it is
// asked, how many seconds after the start.
type script struct {
	board
	began time.Time
	took  time.Duration // of a query

	mu     sync.Mutex // guards what follows
	down   error      // what queries and the schema fail with
	query  error      // what queries alone fail with
	broken error
	pause  error
	asked  []string
}

func (s *script) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf("%s at %.0f", what, time.Since(s.began).Seconds()))
}

// answer waits for as long as a query takes.
func (s *script) answer(ctx context.Context) error {
	select {
	case <-time.After(s.took):
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.query != nil {
			return s.query
		}
		return errors.Join(s.down, s.broken)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *script) List(ctx context.Context, _ time.Time, read func(int)) ([]task.Task, error) {
	s.note("list" + patience(ctx))
	read(1)
	return s.seen(), s.answer(ctx)
}

func (s *script) EditedSince(ctx context.Context, t time.Time) ([]task.Task, error) {
	s.note("edited" + patience(ctx))
	return nil, s.answer(ctx)
}

func (s *script) Check(context.Context) error {
	s.note("check")
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.down, s.broken)
}

func (s *script) Broken() error { return s.broken }
func (s *script) Paused() error { return s.pause }

// fail sets what everything, and what queries alone fail with.
func (s *script) fail(down, query error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.query = down, query
}

type patienceKey struct{}

func patience(ctx context.Context) string {
	words, _ := ctx.Value(patienceKey{}).(string)
	return words
}

func (s *script) Patient(ctx context.Context, _ time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, ", patiently")
}

func (s *script) Impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, "")
}

// noted has a script note how syncs end.
type noted struct {
	mirror.Unwatched
	s *script
}

func (n noted) Synced(_ context.Context, r mirror.Result) error {
	n.s.note(fmt.Sprintf("synced %v", r.Full))
	return nil
}

func (n noted) Unsynced(_ context.Context, again bool) { n.s.note(fmt.Sprintf("unsynced %v", again)) }

// mirror returns a mirror of s that syncs every ten seconds, and notes what it says.
func (s *script) mirror(t *testing.T, kept mirror.Storage, failure error) *mirror.Mirror {
	t.Helper()
	s.began = time.Now()
	return mirrorOf(t, s, func(c *mirror.Config) {
		c.Storage, c.Interval, c.Failure, c.Watcher = kept, 10*time.Second, failure, noted{s: s}
	})
}

// started is a mirror that runs for as long as the test.
func (s *script) started(t *testing.T, kept mirror.Storage) *mirror.Mirror {
	t.Helper()
	m := s.mirror(t, kept, nil)
	if err := m.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, m)
	return m
}

// told compares what was asked and said since the last time.
func (s *script) told(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.asked = nil
}

// run has the mirror run for as long as the test.
func run(t *testing.T, m *mirror.Mirror) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// earlier is the storage of an earlier run.
type earlier struct{ storage }

func (earlier) Meta(_ context.Context, key string) (string, error) {
	return map[string]string{"mirror.synced": "2026-11-20T09:00:00Z", "notion.tasks": "the schema"}[key], nil
}

func unavailable(after time.Duration) *claim.StoreError {
	return &claim.StoreError{Kind: claim.Unavailable, RetryAfter: after, Err: errors.New("down")}
}

// TestOutage has Notion go away and come back.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		m := s.started(t, storage{})
		time.Sleep(15 * time.Second)
		s.told(t, "list, patiently at 0", "synced true at 0", "edited at 10", "synced false at 10")
		if got := m.Standing(); got.Stale || got.Failure != nil || got.Old != 5*time.Second {
			t.Errorf("standing = %+v", got)
		}

		s.fail(unavailable(3*time.Second), nil)
		time.Sleep(10 * time.Second)
		s.told(t, "edited at 20", "check at 20", "unsynced false at 20", "check at 23", "unsynced true at 23")
		if got := m.Standing(); !got.Stale || got.Failure == nil || got.Old != 15*time.Second {
			t.Errorf("standing = %+v", got)
		}
		s.fail(nil, nil)
		time.Sleep(3 * time.Second)
		s.told(t, "check at 26", "edited at 26", "synced false at 26")

		// What Notion says of itself counts for more than what a query says.
		s.fail(unavailable(3*time.Second), unavailable(time.Minute))
		time.Sleep(13 * time.Second)
		s.told(t, "edited at 36", "check at 36", "unsynced false at 36", "check at 39", "unsynced true at 39")
		s.fail(nil, nil)
		time.Sleep(3 * time.Second)
		s.told(t, "check at 42", "edited at 42", "synced false at 42")

		// Queries alone that fail are no reason to come back early.
		s.fail(nil, errors.New("a query that is refused"))
		time.Sleep(20 * time.Second)
		s.told(t, "edited at 52", "unsynced false at 52", "check at 62", "edited at 62", "unsynced true at 62")
		s.fail(nil, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := m.Standing(); got.Stale || got.Failure != nil {
			t.Errorf("standing = %+v", got)
		}
	})
}

// TestIntervalCountsFromTheLastSync has somebody ask for a sync between two.
func TestIntervalCountsFromTheLastSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		m := s.started(t, storage{})
		time.Sleep(4 * time.Second)
		if _, err := m.Sync(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(21 * time.Second)
		s.told(t, "list, patiently at 0", "synced true at 0", "edited at 4", "synced false at 4",
			"edited at 14", "synced false at 14", "edited at 24", "synced false at 24")

		// One that fails does not count.
		s.fail(nil, errors.New("a query that is refused"))
		if _, err := m.Sync(t.Context(), false); err == nil {
			t.Fatal("the sync did not fail")
		}
		s.fail(nil, nil)
		time.Sleep(10 * time.Second)
		s.told(t, "edited at 25", "unsynced false at 25", "check at 34", "edited at 34", "synced false at 34")
	})
}

// TestStale has no sync come to an end for too long.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		m := s.mirror(t, storage{}, nil)
		if got := m.Standing(); !got.Stale || !got.SyncedAt.IsZero() || m.Listed() {
			t.Errorf("at first, standing = %+v, listed = %v", got, m.Listed())
		}
		if err := m.Begin(t.Context()); err != nil || !m.Listed() {
			t.Fatalf("listed = %v, %v", m.Listed(), err)
		}
		time.Sleep(140 * time.Second) // two minutes, and two intervals
		if m.Standing().Stale {
			t.Error("stale too early")
		}
		time.Sleep(time.Second)
		if !m.Standing().Stale {
			t.Error("not stale")
		}
	})
}

// TestSyncInAPause has somebody ask for a sync while Notion asked to be left alone.
func TestSyncInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{pause: unavailable(time.Minute)}
		m := s.mirror(t, storage{}, nil)
		for _, full := range []bool{true, false} {
			if _, err := m.Sync(t.Context(), full); !errors.Is(err, s.pause) {
				t.Errorf("err = %v, want %v", err, s.pause)
			}
		}
		s.told(t)
		s.pause = nil
		if r, err := m.Sync(t.Context(), true); err != nil || !r.Full {
			t.Errorf("sync = %+v, %v", r, err)
		}
		s.told(t, "check at 0", "list at 0", "synced true at 0")
		if _, err := m.SyncAll(t.Context()); err != nil {
			t.Error(err)
		}
		s.told(t, "check at 0", "list, patiently at 0", "synced true at 0")
	})
}

// TestSchemaIsWholeAgain reads nothing while the schema lacks something, and everything afterwards,
// also if no sync met the lack.
func TestSchemaIsWholeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		m := s.mirror(t, storage{}, nil)
		once := func() (full bool) {
			r, err := m.RunOnce(t.Context())
			if !errors.Is(err, s.broken) {
				t.Errorf("err = %v, want %v", err, s.broken)
			}
			return err == nil && r.Full
		}
		got := []bool{once(), once()}
		s.broken = errors.New("a property is gone")
		got = append(got, once(), once())
		if m.Closed() == nil {
			t.Error("tasks may be claimed")
		}
		if _, err := m.Blockers(t.Context(), task.Task{}); !errors.Is(err, s.broken) {
			t.Errorf("blockers: %v, want %v", err, s.broken)
		}
		s.broken = nil
		got = append(got, once(), once())
		m.Anew()
		got = append(got, once(), once())
		if want := []bool{true, false, false, false, true, false, true, false}; !slices.Equal(got, want) {
			t.Errorf("the board was read as a whole: %v, want %v", got, want)
		}
	})
}

// TestBegin has the first sync take its time, or fail.
func TestBegin(t *testing.T) {
	for name, tt := range map[string]struct {
		script  *script
		kept    mirror.Storage
		failure error
		took    time.Duration
		fails   bool
	}{
		"quick":                      {script: &script{took: time.Second}, kept: storage{}, took: time.Second},
		"slow":                       {script: &script{took: time.Minute}, kept: storage{}, took: 5 * time.Second},
		"fails":                      {script: &script{down: unavailable(0)}, kept: storage{}, fails: true},
		"fails, with tasks":          {script: &script{down: unavailable(0)}, kept: earlier{}},
		"refused, with tasks":        {script: &script{query: errors.New("refused")}, kept: earlier{}, fails: true},
		"known to fail":              {script: &script{took: time.Second}, kept: storage{}, failure: unavailable(0), took: time.Second},
		"known to fail, with tasks":  {script: &script{took: time.Second}, kept: earlier{}, failure: unavailable(0)},
		"slow, with tasks of before": {script: &script{took: time.Minute}, kept: earlier{}, took: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.script
				m := s.mirror(t, tt.kept, tt.failure)
				err := m.Begin(t.Context())
				if took := time.Since(s.began); (err != nil) != tt.fails || took != tt.took {
					t.Errorf("took %v: %v; want %v, fails = %v", took, err, tt.took, tt.fails)
				}
				synctest.Wait()
				if p := m.Standing().Progress; (p != nil) != (tt.script.took > tt.took) || p != nil && p.Read != 1 {
					t.Errorf("progress = %+v", p)
				}
				if err := m.Close(); err != nil || time.Since(s.began) != tt.took {
					t.Errorf("closed after %v: %v", time.Since(s.began), err)
				}
			})
		})
	}
}

// counted is a tasks database that counts its queries.
type counted struct {
	board
	queries atomic.Int32
	full    atomic.Bool // claims and logs need every permit
	still   atomic.Bool // nothing is edited
}

func (c *counted) Room() (bool, time.Duration) { return !c.full.Load(), 3 * time.Second }

func (c *counted) EditedSince(ctx context.Context, since time.Time) ([]task.Task, error) {
	c.queries.Add(1)
	if c.still.Load() {
		return nil, nil
	}
	return c.seen(), nil
}

// in returns how many queries come in a time.
func (c *counted) in(t *testing.T, d time.Duration) int {
	t.Helper()
	synctest.Wait()
	before := c.queries.Load()
	time.Sleep(d)
	synctest.Wait()
	return int(c.queries.Load() - before)
}

// paced runs a mirror of a board with as many tasks.
func paced(t *testing.T, tasks int, idle bool) (*mirror.Mirror, *counted) {
	t.Helper()
	c := &counted{}
	for i := range tasks {
		c.edit(task.Task{ID: task.ID(fmt.Sprint(i))})
	}
	m := mirrorOf(t, c, func(c *mirror.Config) {
		c.Interval, c.Waiting, c.Idle, c.Log = 15*time.Second, 3*time.Second, func() bool { return idle }, slog.New(slog.DiscardHandler)
	})
	if err := m.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	run(t, m)
	return m, c
}

// While somebody waits, syncs come every three seconds, the first at once; never more than 20 a
// minute, and none that would take a permit from others.
func TestWhoWaitsHearsSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := paced(t, 0, false)
		if n := c.in(t, 10*time.Minute); n != 40 {
			t.Errorf("%d syncs in ten minutes without anybody, want 40", n)
		}
		time.Sleep(7 * time.Second)
		before := c.queries.Load()
		first, second := m.Await(), m.Await()
		synctest.Wait()
		if n := c.queries.Load() - before; n != 1 {
			t.Errorf("%d syncs at once when somebody comes, want 1", n)
		}
		if n := c.in(t, 10*time.Minute); n < 199 || n > 200 {
			t.Errorf("%d syncs in ten minutes while two wait, want 200", n)
		}
		c.full.Store(true)
		if n := c.in(t, 10*time.Minute); n != 40 {
			t.Errorf("%d syncs in ten minutes while claims need every permit, want 40", n)
		}
		c.full.Store(false)
		first()
		first() // again
		if n := c.in(t, time.Minute); n < 18 {
			t.Errorf("%d syncs in a minute while one of two still waits, want some 20", n)
		}
		second()
		if n := c.in(t, 10*time.Minute); n > 41 {
			t.Errorf("%d syncs in ten minutes after they have gone, want 40", n)
		}
	})
}

// A board whose changes need several requests is asked less often, so that the requests stay the
// same. What it took to read it whole does not count.
func TestALargeBoardIsAskedLessOften(t *testing.T) {
	for still, most := range map[bool]int{false: 203 / 3, true: 203} {
		synctest.Test(t, func(t *testing.T) {
			m, c := paced(t, 250, false)
			c.still.Store(still)
			c.in(t, time.Minute)
			defer m.Await()()
			if n := c.in(t, 10*time.Minute); n > most || still && n < 190 {
				t.Errorf("%d syncs in ten minutes, nothing edited: %v; want at most %d", n, still, most)
			}
		})
	}
}

// After an hour without an agent, syncs come once a minute. The first agent after that waits for
// one.
func TestNobodyIsThere(t *testing.T) {
	for _, idle := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, c := paced(t, 0, idle)
			time.Sleep(time.Hour + time.Minute)
			want := map[bool]int{true: 60, false: 240}[idle]
			if n := c.in(t, time.Hour); n != want {
				t.Errorf("%d syncs in an hour without an agent, idle %v; want %d", n, idle, want)
			}
			time.Sleep(10 * time.Second)
			before := c.queries.Load()
			m.Use(t.Context())
			if n := c.queries.Load() - before; idle && n != 1 || !idle && n != 0 {
				t.Errorf("%d syncs before the first agent goes on, idle %v", n, idle)
			}
			if n := c.in(t, 10*time.Minute); n < 39 {
				t.Errorf("%d syncs in ten minutes after an agent came, want 40", n)
			}
		})
	}
}
