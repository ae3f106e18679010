package task_test

import (
	"slices"
	"testing"
	"time"

	"dibs/internal/task"
)

// The more urgent first, then the older, then the one with the lower number, then by id.
func TestSort(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := []task.Task{
		{ID: "9", Key: "T-30", Priority: task.Critical, Created: noon.Add(time.Hour)},
		{ID: "6", Key: "T-40", Unblocks: 11, Created: noon.Add(time.Hour)},
		{ID: "5", Key: "T-41", Unblocks: 2, Created: noon},
		{ID: "8", Key: "T-31", Created: noon.Add(-time.Minute)},
		{ID: "7", Created: noon}, // from before there were numbers
		{ID: "6", Key: "T-2", Created: noon},
		{ID: "5", Key: "T-10", Created: noon},
		{ID: "4", Key: "T-11", Created: noon},
		{ID: "1", Key: "12", Created: noon}, // without a prefix
		{ID: "2", Key: "T-1", Created: noon.Add(time.Minute)},
		{ID: "3", Created: noon.Add(2 * time.Minute)},
		{ID: "4", Created: noon.Add(2 * time.Minute)},
		{ID: "0", Key: "T-3", Priority: task.None, Created: noon},
	}
	for i := range want {
		if want[i].Priority == 0 && i != len(want)-1 {
			want[i].Priority = task.Medium
		}
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	task.Sort(got)
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Key != want[i].Key {
			t.Errorf("place %d has %s (%s), want %s (%s)", i+1, got[i].ID, got[i].Key, want[i].ID, want[i].Key)
		}
		if i > 0 && got[i].Order() <= got[i-1].Order() {
			t.Errorf("place %d has the order %q, after %q", i+1, got[i].Order(), got[i-1].Order())
		}
	}
}
