package mirror_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

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

// told keeps what the mirror tells.
type told struct {
	mirror.Unwatched
	ids *[]task.ID
}

func (w told) Changed(ids ...task.ID) { *w.ids = append(*w.ids, ids...) }

// What more tasks wait for comes before what is older, within a priority. The watcher hears of a
// task that moves because another one has changed.
func TestWhatUnblocksMostComesFirst(t *testing.T) {
	var heard []task.ID
	m, err := mirror.New(t.Context(), mirror.Config{
		Source: &board{}, Storage: storage{}, Keep: time.Hour, Watcher: told{ids: &heard}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
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
	heard = nil
	see("c", 2, func(t *task.Task) { t.Status = task.Completed })
	want("c is done", "uxabecd") // d waits for c only
	if !slices.Contains(heard, "b") {
		t.Errorf("it told of %s, and not of b, which moved", heard)
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
