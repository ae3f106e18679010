package broker

import (
	"testing"

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
