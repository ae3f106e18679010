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

func TestTasks(t *testing.T) {
	old, other := mirrored("a", "old", task.Open), mirrored("b", "other", task.Completed)
	claimed := mirrored("a", "new", task.InProgress)
	claimed.Token, claimed.Timeout = "01KAFQZ0000000000000000001", time.Hour // not in a task's own JSON
	added := mirrored("c", "added", task.Open)
	j := newJournal(t)
	want := func(want ...task.Task) {
		t.Helper()
		j = reopen(t, j)
		if diff := cmp.Diff(want, tasks(t, j)); diff != "" {
			t.Errorf("tasks (-want +got):\n%s", diff)
		}
	}
	want()
	do(t, j.PutTasks(t.Context(), []task.Task{other, old}))
	want(old, other)
	do(t, j.PutTasks(t.Context(), []task.Task{added, claimed}))
	want(claimed, other, added)
	for range 2 { // the second has nothing to do
		do(t, j.DeleteTasks(t.Context(), []task.ID{"b", "a"}))
		want(added)
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
