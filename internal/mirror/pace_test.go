package mirror_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/mirror"
	"dibs/internal/task"
)

// counted is a tasks database that counts its queries.
type counted struct {
	board
	queries atomic.Int32
	full    atomic.Bool // claims and logs need every permit
}

func (c *counted) Room() (bool, time.Duration) { return !c.full.Load(), 3 * time.Second }

func (c *counted) EditedSince(ctx context.Context, since time.Time) ([]task.Task, error) {
	c.queries.Add(1)
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
	m, err := mirror.New(t.Context(), mirror.Config{
		Source: c, Storage: storage{}, Keep: time.Hour, Interval: 15 * time.Second, Waiting: 3 * time.Second,
		Idle: func() bool { return idle }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
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
// same.
func TestALargeBoardIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := paced(t, 250, false)
		defer m.Await()()
		if n := c.in(t, 10*time.Minute); n*3 > 203 {
			t.Errorf("%d syncs of three requests in ten minutes, want at most 67", n)
		}
	})
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
