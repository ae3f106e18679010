package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// What a task was tried is forgotten once it is told that a person has opened it again, and
// not when it only went back to OPEN; and after a while.
func TestTriesAreForgotten(t *testing.T) {
	ctx := t.Context()
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	check := func(what string, want int) {
		t.Helper()
		if got, err := j.Tries(ctx, "a"); err != nil || len(got) != want {
			t.Errorf("%s: tries %+v, %v; want %d", what, got, err, want)
		}
	}
	becomes := func(s task.Status) {
		t.Helper()
		if err := j.PutTasks(ctx, []task.Task{{ID: "a", Title: "T", Status: s}}); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Publish(ctx, t0, []task.ID{"a"}); err != nil {
			t.Fatal(err)
		}
	}
	tried := func(at time.Time) {
		t.Helper()
		e := claim.Fact{ID: claim.NewFactID(at), At: at, Kind: claim.KindFailed, Task: "a", Agent: "Oracle", Tried: claim.TriedAgain}
		if err := j.Record(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.BeginFeed(ctx); err != nil {
		t.Fatal(err)
	}
	becomes(task.InProgress)
	tried(t0)
	becomes(task.Open)
	check("put back to OPEN", 1)
	for _, s := range []task.Status{task.Blocked, task.Review, task.Failed, task.Cancelled, task.Completed} {
		becomes(s)
		check(string(s), 1)
		becomes(task.Open)
		check(string(s)+", and opened again", 0)
		tried(t0)
	}
	deliverAll(t, j) // nothing is forgotten that is owed to a log
	if _, err := j.Prune(ctx, t0.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	check("after a while", 0)
}
