package task_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/task"

	"pgregory.net/rapid"
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
	}
}

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

// board is a board in one line: "a:OPEN>b,c+d" is a task that depends on b and c and has the
// sub-item d. A status in lower case is that of a task in the trash.
func board(line string) map[task.ID]task.Task {
	all := make(map[task.ID]task.Task)
	ids := func(list string) (out []task.ID) {
		for id := range strings.SplitSeq(list, ",") {
			if id != "" {
				out = append(out, task.ID(id))
			}
		}
		return out
	}
	for word := range strings.FieldsSeq(line) {
		word, parts, _ := strings.Cut(word, "+")
		word, on, _ := strings.Cut(word, ">")
		id, status, _ := strings.Cut(word, ":")
		up := strings.ToUpper(status)
		all[task.ID(id)] = task.Task{ID: task.ID(id), Title: strings.ToUpper(id), Status: task.Status(up), Trashed: up != status, DependsOn: ids(on), SubItems: ids(parts)}
	}
	return all
}

func TestStuck(t *testing.T) {
	const never = "it can never become ready: "
	for _, tt := range []struct{ board, want string }{
		{"a:OPEN>b b:COMPLETED", ""},
		{"a:OPEN>b b:BLOCKED", ""},
		{"a:OPEN>b b:CANCELLED", never + "it waits for “B”, which is CANCELLED; take “B” out of its dependencies, or reopen “B”"},
		{"a:OPEN>b b:open", never + "it waits for “B”, which is in the trash; take “B” out of its dependencies, or restore “B”"},
		{"a:OPEN>b b:completed", never + "it waits for “B”, which is in the trash; take “B” out of its dependencies, or restore “B”"},
		{"a:OPEN>b b:", never + "it waits for “B”, which is not on this board, or not shared with dibs; take “B” out of its dependencies, or share “B”"},
		{"a:OPEN>unread", ""}, // nothing is known of it yet
		{"a:OPEN+b,c,d b:CANCELLED c:open d:COMPLETED", ""},
		{"a:OPEN+b b:", never + "it waits for “B”, which is not on this board, or not shared with dibs; take “B” out of its sub-items, or share “B”"},
		{"a:OPEN+b b:OPEN>c c:CANCELLED", never + "it waits for “B”, and that waits for “C”, which is CANCELLED; take “C” out of the dependencies of “B”, or reopen “C”"},
		{"a:OPEN>a", never + "it waits for itself; take it out of its dependencies"},
		{"a:OPEN>b b:BLOCKED>a", never + "it waits in a circle, for “B”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>c c:OPEN>a", never + "it waits in a circle, for “B”, which waits for “C”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN+b b:OPEN>a", never + "it waits in a circle, for “B”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>c c:OPEN>d d:OPEN>c", never + "it waits for “C”, and that waits in a circle, for “D”, which waits for “C”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>a,c c:CANCELLED", never + "it waits in a circle, for “B”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>c c:FAILED>d d:CANCELLED", never + "it waits for “C”, and that waits for “D”, which is CANCELLED; take “D” out of the dependencies of “C”, or reopen “D”"},
		{"a:OPEN>b b:IN_PROGRESS>c c:CANCELLED", ""}, // its holder finishes it all the same
		{"a:OPEN>b b:IN_PROGRESS>a", ""},
		{"a:OPEN>b b:REVIEW>a", ""},
		{"a:IN_PROGRESS>b b:CANCELLED", ""},
		{"a:COMPLETED>b b:CANCELLED", ""},
		{"a:open>b b:CANCELLED", ""},
	} {
		all := board(tt.board)
		lookup := func(id task.ID) (task.Task, bool) {
			one, ok := all[id]
			return one, ok
		}
		said := func(r *task.Rot) string {
			if s := r.Stuck(all["a"]); s != nil {
				return r.Say(all["a"], s)
			}
			return ""
		}
		r := task.NewRot(lookup)
		if got := said(r); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.board, got, tt.want)
		}
		r = task.NewRot(lookup)
		for _, other := range []task.ID{"d", "c", "b"} {
			r.Stuck(all[other])
		}
		if got := said(r); got != tt.want {
			t.Errorf("%s, with the others asked about first:\n%s, want\n%s", tt.board, got, tt.want)
		}
	}
}
