package mirror_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// changes are the tasks that were told to have changed.
type changes struct {
	mirror.Unwatched
	mu   sync.Mutex
	told []task.ID
}

func (c *changes) Changed(ids ...task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, ids...)
}

// TestChangesAreTold has tasks change, appear and leave.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		changed := new(changes)
		m, err := mirror.New(t.Context(), mirror.Config{
			Source: b, Storage: storage{}, Keep: time.Hour, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Watcher: changed,
		})
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string, want ...task.ID) {
			t.Helper()
			slices.Sort(changed.told)
			if !slices.Equal(changed.told, want) {
				t.Errorf("%s: told of %q, want %q", when, changed.told, want)
			}
			changed.told = nil
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
