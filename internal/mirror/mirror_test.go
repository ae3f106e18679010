package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// slow is a storage that takes a second for each transaction.
type slow struct {
	storage
	puts [][]task.Task
	err  error
}

func (s *slow) PutTasks(_ context.Context, tasks []task.Task) error {
	time.Sleep(time.Second)
	s.puts = append(s.puts, tasks)
	return s.err
}

// TestPagesSeenTogetherAreStoredTogether has many pages read and written while the
// storage is busy with one.
func TestPagesSeenTogetherAreStoredTogether(t *testing.T) {
	const pages = 50
	for name, failure := range map[string]error{"stored": nil, "the storage fails": errors.New("full")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed := new(changes)
				s := &slow{err: failure}
				m := mirrorOf(t, &board{}, func(c *mirror.Config) { c.Storage, c.Watcher = s, changed })
				began := time.Now()
				var all sync.WaitGroup
				for i := range pages {
					all.Go(func() {
						seen := task.Task{ID: task.ID(fmt.Sprint(i)), Title: "first", Status: task.Open}
						m.Observe(claim.Reading{Task: seen})
						if _, known := m.Task(seen.ID); known != (failure == nil) {
							t.Errorf("task %d: known = %v once it was observed", i, known)
						}
					})
					synctest.Wait() // the first one is being stored, and the others wait for it
				}
				m.Observe(claim.Reading{Task: task.Task{ID: "7", Title: "second", Status: task.Open}})
				all.Wait()
				if took := time.Since(began); took != 2*time.Second || len(s.puts) != 2 || len(s.puts[0]) != 1 || len(s.puts[1]) != pages-1 {
					t.Errorf("%d transactions in %v, want two in two seconds", len(s.puts), took)
				}
				if got, _ := m.Task("7"); failure == nil && (got.Title != "second" || len(changed.told) != pages) {
					t.Errorf("title = %q, and %d tasks changed; want what was seen last, and %d", got.Title, len(changed.told), pages)
				}
			})
		})
	}
}

// changes are the tasks that were told to have changed.
type changes struct {
	mirror.Unwatched
	mu   sync.Mutex
	told []task.ID
}

func (c *changes) Changed(ids ...task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, ids...)
}

// TestChangesAreTold has tasks change, appear and leave.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		changed := new(changes)
		m := mirrorOf(t, b, func(c *mirror.Config) { c.Watcher = changed })
		check := func(when string, want ...task.ID) {
			t.Helper()
			slices.Sort(changed.told)
			if !slices.Equal(changed.told, want) {
				t.Errorf("%s: told of %q, want %q", when, changed.told, want)
			}
			changed.told = nil
		}
		sync := func(full bool) {
			t.Helper()
			time.Sleep(30 * time.Minute)
			if _, err := m.Sync(context.Background(), full); err != nil {
				t.Fatal(err)
			}
		}
		open := func(id task.ID, title string) task.Task { return task.Task{ID: id, Title: title, Status: task.Open} }
		for _, id := range []task.ID{"a", "b", "c"} {
			b.edit(open(id, "at first"))
		}
		b.edit(task.Task{ID: "d", Status: task.Completed})
		sync(true)
		check("the first sync", "a", "b", "c", "d")
		sync(false)
		check("nothing changed")
		b.edit(open("a", "edited"))
		sync(false)
		check("an edit", "a")
		m.Observe(claim.Reading{Task: b.edit(open("b", "edited"))})
		check("a page", "b")
		m.Observe(claim.Reading{Task: b.versions[len(b.versions)-1].Task})
		check("the same page")
		b.versions = slices.DeleteFunc(b.versions, func(v version) bool { return v.ID == "c" || v.ID == "d" })
		sync(true)
		check("one that left the board, and one finished long ago", "c", "d")
	})
}

// offered is what the mirror offers, in order.
func offered(m *mirror.Mirror) []task.Task { return slices.Collect(m.Tasks()) }

// TestTasksAreOfferedInOrder changes tasks so that they move, appear and stay where
// they are.
func TestTasksAreOfferedInOrder(t *testing.T) {
	const tasks = 500 // more than one node of the tree that keeps them in order
	m := newMirror(t, &board{})
	want := make(map[task.ID]task.Task)
	for i := range 5 * tasks {
		n := i * 7919 % tasks
		seen := task.Task{
			ID: task.ID(fmt.Sprint(n)), Title: fmt.Sprint(i), Status: task.Open, Priority: task.Priority(-(i / 3 % 5)),
			Created: time.Unix(int64(n%7), 0),
		}
		want[seen.ID] = seen
		m.Observe(claim.Reading{Task: seen})
	}
	var sorted []task.Task
	for _, s := range want {
		sorted = append(sorted, s)
	}
	task.Sort(sorted)
	if got := offered(m); !slices.EqualFunc(got, sorted, func(a, b task.Task) bool { return a.ID == b.ID && a.Title == b.Title }) {
		t.Errorf("%d tasks are offered, want these %d in their order:\n%v\n%v", len(got), len(sorted), got, sorted)
	}
}

// What more tasks wait for comes before what is older, within a priority. The watcher hears of a
// task that moves because another one has changed.
func TestWhatUnblocksMostComesFirst(t *testing.T) {
	heard := new(changes)
	m := mirrorOf(t, &board{}, func(c *mirror.Config) { c.Watcher = heard })
	see := func(id string, age int, change func(*task.Task)) {
		one := task.Task{ID: task.ID(id), Status: task.Open, Created: time.Unix(int64(-age), 0)}
		if change != nil {
			change(&one)
		}
		m.Observe(claim.Reading{Task: one})
	}
	after := func(ids ...task.ID) func(*task.Task) { return func(t *task.Task) { t.DependsOn = ids } }
	want := func(when, order string) {
		t.Helper()
		got := ""
		for one := range m.Tasks() {
			got += string(one.ID)
		}
		if got != order {
			t.Errorf("%s: %s, want %s", when, got, order)
		}
	}
	see("d", 1, after("c"))
	see("c", 2, after("b"))
	see("e", 3, func(t *task.Task) { t.SubItems = []task.ID{"x"} })
	see("a", 9, nil)
	see("b", 4, nil)
	see("x", 5, nil)
	see("u", 0, func(t *task.Task) { t.Priority = task.Critical })
	want("at first", "ubxcaed") // b unblocks c and d; x and c one each
	heard.told = nil
	see("c", 2, func(t *task.Task) { t.Status = task.Completed })
	want("c is done", "uxabecd") // d waits for c only
	if !slices.Contains(heard.told, "b") {
		t.Errorf("it told of %s, and not of b, which moved", heard.told)
	}
	see("e", 3, func(t *task.Task) { t.Trashed = true })
	want("the whole is in the trash", "uaxbecd")
}

// TestTasksAreOfOneMoment changes all tasks while they are being gone through.
func TestTasksAreOfOneMoment(t *testing.T) {
	const tasks = 500
	m := newMirror(t, &board{})
	change := func(title string, priority task.Priority) {
		for i := range tasks {
			m.Observe(claim.Reading{Task: task.Task{ID: task.ID(fmt.Sprint(i)), Title: title, Status: task.Open, Priority: priority}})
		}
	}
	change("before", task.Low)
	was, n := offered(m), 0
	for got := range m.Tasks() {
		switch n {
		case 0:
			change("after", task.Low)
		case tasks / 2:
			change("after", task.Critical)
		}
		if got.ID != was[n].ID || got.Title != "before" {
			t.Fatalf("task %d is %s, %q; want %s, as it was", n, got.ID, got.Title, was[n].ID)
		}
		n++
	}
	if n != tasks || len(offered(m)) != tasks || offered(m)[0].Title != "after" {
		t.Errorf("%d tasks gone through, and %d afterwards, the first %q; want %d", n, len(offered(m)), offered(m)[0].Title, tasks)
	}
}

// BenchmarkObserve measures what it costs the mirror of a large board that a page
// shows something new: by itself, and with the journal, where claims that are made
// at the same time have their pages stored at the same time.
//
//	go test -run=NONE -bench=Observe ./internal/mirror
func BenchmarkObserve(b *testing.B) {
	for _, tasks := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) { benchmarkObserve(b, tasks, storage{}) })
	}
	b.Run("tasks=10000,stored", func(b *testing.B) {
		j, err := journal.Open(b.Context(), filepath.Join(b.TempDir(), journal.FileName))
		if err != nil {
			b.Fatal(err)
		}
		defer j.Close()
		b.SetParallelism(32)
		benchmarkObserve(b, 10_000, j)
	})
}

func benchmarkObserve(b *testing.B, tasks int, s mirror.Storage) {
	all := &board{}
	for i := range tasks {
		all.edit(task.Task{ID: task.ID(fmt.Sprintf("%032d", i)), Status: task.Open, Priority: task.Priority(i % 4)})
	}
	m := mirrorOf(b, all, func(c *mirror.Config) { c.Storage, c.Log = s, slog.New(slog.DiscardHandler) })
	if _, err := m.Sync(b.Context(), true); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			t := all.versions[i*7919%int64(tasks)].Task
			t.ClaimedBy = fmt.Sprint(i)
			m.Observe(claim.Reading{Task: t, At: time.Now()})
		}
	})
}
