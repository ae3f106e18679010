package journal_test

import (
	"testing"
	"time"

	"dibs/internal/journal"
	"dibs/internal/mirror"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

var _ mirror.Storage = (*journal.Journal)(nil)

func mirrored(id task.ID, title string, status task.Status) task.Task {
	return task.Task{ID: id, Title: title, Status: status, Priority: task.Medium, Created: t0}
}

func tasks(t testing.TB, j *journal.Journal) []task.Task {
	t.Helper()
	list, err := j.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPutTasks(t *testing.T) {
	old := mirrored("a", "old", task.Open)
	same := old
	renamed := mirrored("a", "new", task.Open)
	claimed := old
	claimed.Token, claimed.Timeout = "01KAFQZ0000000000000000001", time.Hour // not in a task's own JSON

	tests := map[string]struct {
		second     task.Task
		after      time.Duration // between the readings
		want       []task.Change
		wantTask   task.Task
		wantReadAt time.Time
	}{
		"changed": {
			renamed, time.Second,
			[]task.Change{{Before: &old, After: renamed}}, renamed, t0.Add(time.Second),
		},
		"changed in what JSON leaves out": {
			claimed, time.Second,
			[]task.Change{{Before: &old, After: claimed}}, claimed, t0.Add(time.Second),
		},
		"the same": {same, time.Second, nil, old, t0.Add(time.Second)},
		"read at the same time": {
			renamed, 0,
			[]task.Change{{Before: &old, After: renamed}}, renamed, t0,
		},
		"read before":               {renamed, -time.Millisecond, nil, old, t0},
		"read before, and the same": {same, -time.Millisecond, nil, old, t0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			changed, err := j.PutTasks(t.Context(), []task.Task{old}, t0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]task.Change{{After: old}}, changed); diff != "" {
				t.Errorf("changes of the first reading (-want +got):\n%s", diff)
			}
			changed, err = j.PutTasks(t.Context(), []task.Task{test.second}, t0.Add(test.after))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, changed); diff != "" {
				t.Errorf("changes of the second reading (-want +got):\n%s", diff)
			}
			got, readAt, ok, err := j.Task(t.Context(), "a")
			if err != nil || !ok {
				t.Fatalf("Task = %v, %v", ok, err)
			}
			if diff := cmp.Diff(test.wantTask, got); diff != "" {
				t.Errorf("task (-want +got):\n%s", diff)
			}
			if !readAt.Equal(test.wantReadAt) {
				t.Errorf("read at %v, want %v", readAt, test.wantReadAt)
			}
		})
	}
}

func TestReplaceUnfinished(t *testing.T) {
	before, now, later := t0, t0.Add(time.Minute), t0.Add(2*time.Minute)
	var (
		same     = mirrored("1", "same", task.Open)
		old      = mirrored("2", "old", task.Open)
		renamed  = mirrored("2", "new", task.InProgress)
		added    = mirrored("3", "added", task.Open)
		dropped  = mirrored("4", "dropped", task.Unknown)
		dropped2 = mirrored("5", "dropped, read at the same time", task.Blocked)
		closed   = mirrored("6", "completed before", task.Completed)
		gaveUp   = mirrored("7", "cancelled before", task.Cancelled)
		newer    = mirrored("8", "made after the listing", task.Open)
		read     = mirrored("9", "read after the listing", task.Completed)
		listed9  = mirrored("9", "as listed", task.Open)
	)
	j := newJournal(t)
	for _, put := range []struct {
		at    time.Time
		tasks []task.Task
	}{
		{before, []task.Task{same, old, dropped, closed, gaveUp}},
		{now, []task.Task{dropped2}},
		{later, []task.Task{newer, read}},
	} {
		if _, err := j.PutTasks(t.Context(), put.tasks, put.at); err != nil {
			t.Fatal(err)
		}
	}
	changed, gone, err := j.ReplaceUnfinished(t.Context(), []task.Task{added, listed9, renamed, same}, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]task.Change{{After: added}, {Before: &old, After: renamed}}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]task.Task{dropped, dropped2}, gone); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]task.Task{same, renamed, added, closed, gaveUp, newer, read}, tasks(t, j)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	// An empty listing is a listing too.
	changed, gone, err = j.ReplaceUnfinished(t.Context(), nil, now)
	if err != nil || changed != nil {
		t.Errorf("changed = %v, %v", changed, err)
	}
	if diff := cmp.Diff([]task.Task{same, renamed, added}, gone); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}

func TestTasks(t *testing.T) {
	j := newJournal(t)
	low, critical := mirrored("a", "low", task.Open), mirrored("b", "critical", task.Completed)
	low.Priority, critical.Priority = task.Low, task.Critical
	if _, err := j.PutTasks(t.Context(), []task.Task{low, critical}, t0); err != nil {
		t.Fatal(err)
	}
	j = reopen(t, j)
	if diff := cmp.Diff([]task.Task{critical, low}, tasks(t, j)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	for range 2 { // the second has nothing to do
		if err := j.DeleteTask(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	}
	if _, _, ok, err := j.Task(t.Context(), "b"); ok || err != nil {
		t.Errorf("a deleted task: %v, %v", ok, err)
	}
	if diff := cmp.Diff([]task.Task{low}, tasks(t, j)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

func TestMeta(t *testing.T) {
	j := newJournal(t)
	want := func(key, want string) {
		t.Helper()
		if got, err := j.Meta(t.Context(), key); err != nil || got != want {
			t.Errorf("Meta(%q) = %q, %v, want %q", key, got, err, want)
		}
	}
	want("cursor", "")
	do(t, j.SetMeta(t.Context(), "cursor", "1"))
	do(t, j.SetMeta(t.Context(), "cursor", "2"))
	do(t, j.SetMeta(t.Context(), "other", "3"))
	j = reopen(t, j)
	want("cursor", "2")
	want("other", "3")
}
