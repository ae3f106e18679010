package mirror_test

import (
	"fmt"
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
