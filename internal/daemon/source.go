package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"dibs/internal/notion"
	"dibs/internal/task"
)

// source is the tasks database as the mirror reads it.
type source struct {
	*notion.Tasks
	client *notion.Client
}

func (s source) List(ctx context.Context, since time.Time, read func(int)) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{UnfinishedOnly: true, FinishedSince: since, Progress: read})
	return tasks, err
}

func (s source) EditedSince(ctx context.Context, t time.Time) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{EditedSince: t, Claimed: true})
	return tasks, err
}

// schema is the schema of the tasks database in short, and whether it is such that no task can
// be claimed.
func (s source) schema() (known string, broken bool) {
	sum := sha256.Sum256([]byte(s.Known()))
	return hex.EncodeToString(sum[:8]), s.Broken() != nil
}

func (s source) Paused() error { return s.client.Paused() }

func (source) Patient(ctx context.Context, longest time.Duration) context.Context {
	return notion.Patient(ctx, longest)
}

func (source) Impatient(ctx context.Context) context.Context { return notion.Impatient(ctx) }
