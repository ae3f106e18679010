package broker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/task"
)

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
