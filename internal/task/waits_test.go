package task_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"dibs/internal/task"

	"pgregory.net/rapid"
)

// Whatever changes, the counts are those of a walk over the whole board, and Set names the tasks
// whose counts changed.
func TestWaits(t *testing.T) {
	const nodes = 6
	rapid.Check(t, func(t *rapid.T) {
		w, all := task.NewWaits(), make(map[task.ID]task.Task)
		id := rapid.Custom(func(t *rapid.T) task.ID { return task.ID(fmt.Sprint(rapid.IntRange(0, nodes-1).Draw(t, "id"))) })
		counts := func() map[task.ID]int {
			out := make(map[task.ID]int)
			for n := range nodes {
				one := task.ID(fmt.Sprint(n))
				seen := map[task.ID]bool{one: true}
				for grown := true; grown; {
					grown = false
					for _, other := range all {
						awaits := slices.ContainsFunc(other.Awaited(), func(on task.ID) bool { return seen[on] })
						if awaits && !other.Trashed && !other.Status.Finished() && !seen[other.ID] {
							seen[other.ID], grown = true, true
						}
					}
				}
				out[one] = len(seen) - 1
			}
			return out
		}
		t.Repeat(map[string]func(*rapid.T){"set": func(t *rapid.T) {
			one := task.Task{
				ID: id.Draw(t, "task"), Status: rapid.SampledFrom([]task.Status{task.Open, task.Open, task.Blocked, task.Cancelled}).Draw(t, "status"),
				DependsOn: rapid.SliceOfN(id, 0, 3).Draw(t, "depends on"), SubItems: rapid.SliceOfN(id, 0, 1).Draw(t, "sub-items"),
				Trashed: rapid.IntRange(0, 5).Draw(t, "trashed") == 0,
			}
			before := counts()
			all[one.ID] = one
			moved := make(map[task.ID]bool)
			for _, m := range w.Set(one) {
				moved[m] = true
			}
			after := counts()
			for n := range maps.Keys(after) {
				if w.Unblocks(task.Task{ID: n}) != after[n] || moved[n] != (before[n] != after[n]) {
					t.Fatalf("%s unblocks %d, want %d, before %d; moved: %v", n, w.Unblocks(task.Task{ID: n}), after[n], before[n], moved[n])
				}
			}
		}})
	})
}

// A chain of any length costs a change no more than MostUnblocks steps back.
func TestWaitsAreBounded(t *testing.T) {
	const length = 2_000
	w := task.NewWaits()
	link := func(n int) task.Task {
		return task.Task{ID: task.ID(fmt.Sprint(n)), Status: task.Open, DependsOn: []task.ID{task.ID(fmt.Sprint(n - 1))}}
	}
	for n := 1; n < length; n++ {
		if moved := w.Set(link(n)); len(moved) > task.MostUnblocks {
			t.Fatalf("task %d moves %d others", n, len(moved))
		}
	}
	last := link(length - 1)
	last.Status = task.Completed
	if moved := w.Set(last); len(moved) != task.MostUnblocks || w.Unblocks(task.Task{ID: "0"}) != task.MostUnblocks {
		t.Errorf("the last of a chain moves %d, and its first unblocks %d", len(moved), w.Unblocks(task.Task{ID: "0"}))
	}
}
