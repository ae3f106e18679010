package broker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/task"
)

// Only those are woken who wait for a task like the one that is ready, and may claim it.
func TestWaitersAreToldOfWhatTheyWaitFor(t *testing.T) {
	var w waiters
	high := task.High
	urgent := w.add("Sandman", task.Filter{Priority: &high})
	login := w.add("Oracle", task.Filter{Words: []string{"login"}})
	gone := w.add("Oracle", task.Filter{Words: []string{"login"}})
	w.remove(gone)
	for _, tt := range []struct {
		name          string
		task          task.Task
		agent         string
		urgent, login bool
	}{
		{"for one", task.Task{Title: "Ship", Priority: task.High}, "", true, false},
		{"for both", task.Task{Title: "Fix the Login", Priority: task.High}, "", true, true},
		{"for neither", task.Task{Title: "Rest", Priority: task.Low}, "", false, false},
		{"for both, of which one may claim it", task.Task{Title: "Login", Priority: task.High}, "Oracle", false, true},
	} {
		u, l := urgent.begin(), login.begin()
		w.wake(tt.task, tt.agent)
		w.wake(tt.task, tt.agent) // which nobody waits to be read
		if got := len(u) == 1; got != tt.urgent {
			t.Errorf("%s: the first is told: %v", tt.name, got)
		}
		if got := len(l) == 1; got != tt.login {
			t.Errorf("%s: the second is told: %v", tt.name, got)
		}
		if len(gone.fresh) != 0 {
			t.Errorf("%s: one who has gone is told", tt.name)
		}
	}
}

// Agents of daemons that have met take turns at choosing from what the rivals have not taken, of
// which they hear nothing: they choose apart for as long as each has tasks of its own, and
// namesakes do mostly.
func TestAgentsChooseApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tasks []task.Task
		for i := range 64 {
			tasks = append(tasks, task.Task{ID: task.ID(fmt.Sprint("task-", i)), Status: task.Open})
		}
		tasks = append(tasks, task.Task{ID: "low", Priority: task.Low})
		a, b := newRivals(), newRivals()
		if first, sure, ok := a.choose("Sandman", slices.Values(tasks)); first.ID != "task-0" || !sure || !ok {
			t.Errorf("alone on the board: chose %s, %v, %v; want the first", first.ID, sure, ok)
		}
		a.meet("Oracle", time.Now())
		b.meet("Sandman", time.Now())
		left := [2][]task.Task{slices.Clone(tasks), slices.Clone(tasks)}
		chosen := make(map[task.ID]bool)
		for range 20 {
			for i, o := range []*rivals{&a, &b} {
				one, sure, _ := o.choose([]string{"Sandman", "Oracle"}[i], slices.Values(left[i]))
				if chosen[one.ID] || !sure || one.ID == "low" {
					t.Fatalf("chose %s, sure: %v, after %v", one.ID, sure, chosen)
				}
				chosen[one.ID] = true
				left[i] = slices.DeleteFunc(left[i], func(t task.Task) bool { return t.ID == one.ID })
			}
		}
		a.meet("Sandman", time.Now())
		same := 0
		for range 100 {
			c := newRivals()
			c.meet("Sandman", time.Now())
			one, _, _ := a.choose("Sandman", slices.Values(tasks[:64]))
			if other, _, _ := c.choose("Sandman", slices.Values(tasks[:64])); one.ID == other.ID {
				same++
			}
		}
		if same > 20 {
			t.Errorf("namesakes of two daemons chose the same of 64 tasks %d times out of 100", same)
		}
		time.Sleep(rivalFor)
		if first, _, _ := a.choose("Sandman", slices.Values(tasks)); first.ID != "task-0" || a.active() {
			t.Errorf("long after the rivals have gone: chose %s", first.ID)
		}
		a.meet("Oracle", time.Now().Add(-rivalFor))
		if a.active() {
			t.Error("who made a claim long ago is taken to be at work")
		}
	})
}
