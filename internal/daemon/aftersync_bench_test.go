package daemon_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/journal"
	"dibs/internal/task"
)

// BenchmarkLookAfter measures the search for remains of claims on all tasks of a large board after
// a sync, if a tenth of them is claimed by other daemons.
//
//	go test -run=NONE -bench=LookAfter ./internal/daemon
func BenchmarkLookAfter(b *testing.B) {
	j, err := journal.Open(b.Context(), filepath.Join(b.TempDir(), journal.FileName))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	c, err := claim.New(claim.Config{
		Store: sim.NewRegister().Store(sim.StoreOptions{}), Ledger: j, Policy: sim.Policy(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	now := time.Now()
	var tasks []task.Task
	for i := range 10_000 {
		t := task.Task{ID: task.ID(fmt.Sprintf("%032d", i)), Status: task.Open}
		if i%10 == 0 {
			t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, "Oracle", now, string(claim.NewID(now))
		}
		tasks = append(tasks, t)
	}
	for name, look := range map[string]func(context.Context, task.Task) (bool, error){
		"sighted": func(ctx context.Context, t task.Task) (bool, error) { return c.Sighted(ctx, t.Token) },
		"tidy":    c.Tidy,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, t := range tasks {
					if done, err := look(b.Context(), t); done || err != nil {
						b.Fatal(done, err)
					}
				}
			}
		})
	}
}
