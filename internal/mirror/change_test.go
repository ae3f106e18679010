package mirror_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// TestChangesAreTold has tasks change, appear and leave.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		var told []task.ID
		m, err := mirror.New(t.Context(), mirror.Config{
			Source: b, Storage: storage{}, Keep: time.Hour, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			OnChange: func(ids []task.ID) { told = append(told, ids...) },
		})
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string, want ...task.ID) {
			t.Helper()
			slices.Sort(told)
			if !slices.Equal(told, want) {
				t.Errorf("%s: told of %q, want %q", when, told, want)
			}
			told = nil
		}
		sync := func(full bool) {
			t.Helper()
			time.Sleep(30 * time.Minute)
			if _, err := m.Sync(context.Background(), full); err != nil {
				t.Fatal(err)
			}
		}
		open := func(id task.ID, title string) task.Task { return task.Task{ID: id, Title: title, Status: task.Open} }
		for _, id := range []task.ID{"a", "b", "c"} {
			b.edit(open(id, "at first"))
		}
		b.edit(task.Task{ID: "d", Status: task.Completed})
		sync(true)
		check("the first sync", "a", "b", "c", "d")
		sync(false)
		check("nothing changed")
		b.edit(open("a", "edited"))
		sync(false)
		check("an edit", "a")
		m.Observe(claim.Reading{Task: b.edit(open("b", "edited"))})
		check("a page", "b")
		m.Observe(claim.Reading{Task: b.versions[len(b.versions)-1].Task})
		check("the same page")
		b.versions = slices.DeleteFunc(b.versions, func(v version) bool { return v.ID == "c" || v.ID == "d" })
		sync(true)
		check("one that left the board, and one finished long ago", "c", "d")
	})
}
