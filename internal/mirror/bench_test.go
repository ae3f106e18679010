package mirror_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// BenchmarkObserve measures what it costs the mirror of a large board that a page
// shows something new: by itself, and with the journal, where claims that are made
// at the same time have their pages stored at the same time.
//
//	go test -run=NONE -bench=Observe ./internal/mirror
func BenchmarkObserve(b *testing.B) {
	for _, tasks := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) { benchmarkObserve(b, tasks, storage{}) })
	}
	b.Run("tasks=10000,stored", func(b *testing.B) {
		j, err := journal.Open(b.Context(), filepath.Join(b.TempDir(), journal.FileName))
		if err != nil {
			b.Fatal(err)
		}
		defer j.Close()
		b.SetParallelism(32)
		benchmarkObserve(b, 10_000, j)
	})
}

func benchmarkObserve(b *testing.B, tasks int, s mirror.Storage) {
	all := &board{}
	for i := range tasks {
		all.edit(task.Task{ID: task.ID(fmt.Sprintf("%032d", i)), Status: task.Open, Priority: task.Priority(i % 4)})
	}
	m, err := mirror.New(b.Context(), mirror.Config{
		Source: all, Storage: s, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := m.Sync(b.Context(), true); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			t := all.versions[i*7919%int64(tasks)].Task
			t.ClaimedBy = fmt.Sprint(i)
			m.Observe(claim.Reading{Task: t, At: time.Now()})
		}
	})
}
