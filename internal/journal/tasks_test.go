package journal_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"dibs/internal/journal"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

var _ mirror.Storage = (*journal.Journal)(nil)

func mirrored(id task.ID, title string, status task.Status) task.Task {
	return task.Task{ID: id, Title: title, Status: status, Priority: task.Medium, Created: t0}
}

func tasks(t testing.TB, j *journal.Journal) []task.Task {
	t.Helper()
	list, err := j.Tasks(t.Context())
	do(t, err)
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
		same(t, "tasks", want, tasks(t, j))
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

// Only what was changed in the mirror may be news.
func TestTheSameTaskIsNoNews(t *testing.T) {
	j := newJournal(t)
	untold := func(want ...task.ID) {
		t.Helper()
		got, err := j.Unpublished(t.Context(), "", 0)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Untold = %v, %v; want %v", got, err, want)
		}
		_, err = j.Publish(t.Context(), t0, got)
		do(t, errors.Join(err, j.BeginFeed(t.Context())))
	}
	put := func(title string) { do(t, j.PutTasks(t.Context(), []task.Task{mirrored("a", title, task.Open)})) }
	put("one")
	untold("a")
	put("one")
	untold()
	put("another")
	untold("a")
	do(t, j.DeleteTasks(t.Context(), []task.ID{"a", "b"}))
	untold("a")
}
