package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// slow is a storage that takes a second for each transaction.
type slow struct {
	storage
	puts [][]task.Task
	err  error
}

func (s *slow) PutTasks(_ context.Context, tasks []task.Task) error {
	time.Sleep(time.Second)
	s.puts = append(s.puts, tasks)
	return s.err
}

// TestPagesSeenTogetherAreStoredTogether has many pages read and written while the
// storage is busy with one.
func TestPagesSeenTogetherAreStoredTogether(t *testing.T) {
	const pages = 50
	for name, failure := range map[string]error{"stored": nil, "the storage fails": errors.New("full")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed := new(changes)
				s := &slow{err: failure}
				m, err := mirror.New(t.Context(), mirror.Config{
					Source: &board{}, Storage: s, Keep: time.Hour, Watcher: changed,
					Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
				})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				var all sync.WaitGroup
				for i := range pages {
					all.Go(func() {
						seen := task.Task{ID: task.ID(fmt.Sprint(i)), Title: "first", Status: task.Open}
						m.Observe(claim.Reading{Task: seen})
						if _, known := m.Task(seen.ID); known != (failure == nil) {
							t.Errorf("task %d: known = %v once it was observed", i, known)
						}
					})
					synctest.Wait() // the first one is being stored, and the others wait for it
				}
				m.Observe(claim.Reading{Task: task.Task{ID: "7", Title: "second", Status: task.Open}})
				all.Wait()
				if took := time.Since(began); took != 2*time.Second || len(s.puts) != 2 || len(s.puts[0]) != 1 || len(s.puts[1]) != pages-1 {
					t.Errorf("%d transactions in %v, want two in two seconds", len(s.puts), took)
				}
				if got, _ := m.Task("7"); failure == nil && (got.Title != "second" || len(changed.told) != pages) {
					t.Errorf("title = %q, and %d tasks changed; want what was seen last, and %d", got.Title, len(changed.told), pages)
				}
			})
		})
	}
}
