package ready_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/internal/broker/ready"
	"dibs/internal/task"

	"pgregory.net/rapid"
)

// A list, and the part of it that has a priority, are what sorting and counting all tasks one by
// one would give, also from the middle on.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &board{tasks: make(map[task.ID]task.Task)}
		v := ready.New(b)
		began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range rapid.IntRange(0, 200).Draw(t, "tasks") {
			one := task.Task{
				ID: task.ID(fmt.Sprintf("%03d", i)), Status: task.Open, Priority: rapid.SampledFrom(task.Priorities).Draw(t, "priority"),
				Created: began.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "minute")) * time.Minute),
				Key:     rapid.SampledFrom([]string{"", "T-3", "T-12"}).Draw(t, "key"),
			}
			b.tasks[one.ID] = one
			v.Changed(one.ID)
		}
		want := b.want("")
		of := func(p task.Priority) []task.ID {
			return slices.DeleteFunc(slices.Clone(want), func(id task.ID) bool { return b.tasks[id].Priority != p })
		}
		check := func(what any, got ready.List, want []task.ID) {
			if all := ids(got.All()); !slices.Equal(all, want) || got.Len() != len(want) {
				t.Fatalf("%v: %d tasks, %v, want %v", what, got.Len(), all, want)
			}
			first := []task.ID{}
			for one := range got.All() {
				if first = append(first, one.ID); len(first) == 5 {
					break
				}
			}
			if n := min(5, len(want)); !slices.Equal(first, want[:n]) {
				t.Fatalf("%v: first %v, want %v", what, first, want[:n])
			}
		}
		check("all", v.Tasks(), want)
		for _, p := range task.Priorities {
			check(p, v.Tasks().Of(p), of(p))
		}
		check("none", v.Assigned("Sandman").Of(task.High), nil)
	})
}
