package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// source implements mirror.Source with the tasks database.
type source struct {
	*notion.Tasks
	client *notion.Client
	rate   func() float64 // requests a second that may be sent
}

// source returns the tasks database for the mirror.
func (d *works) source() source {
	return source{d.tasks, d.notion, func() float64 { return d.live.Load().Notion.Rate }}
}

func (s source) List(ctx context.Context, since time.Time, read func(int)) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{UnfinishedOnly: true, Scoped: true, FinishedSince: since, Progress: read})
	return tasks, err
}

func (s source) EditedSince(ctx context.Context, t time.Time) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{EditedSince: t, Claimed: true})
	return tasks, err
}

// quickShare is the part of the rate that quick syncs may take: 20 of 180 requests a minute.
const quickShare = 9

// Room implements mirror.Source. Quick syncs leave half of the burst to claims.
func (s source) Room() (free bool, apart time.Duration) {
	stats := s.client.Stats()
	waiting := 0
	for _, n := range stats.Waiting {
		waiting += n
	}
	return waiting == 0 && 2*stats.Permits >= stats.Burst, time.Duration(quickShare / s.rate() * float64(time.Second))
}

func (s source) Paused() error { return s.client.Paused() }

func (source) Patient(ctx context.Context, longest time.Duration) context.Context {
	return notion.Patient(ctx, longest)
}

func (source) Impatient(ctx context.Context) context.Context { return notion.Impatient(ctx) }

// Background implements mirror.Source.
func (source) Background(ctx context.Context) context.Context { return notion.Background(ctx) }

// recallSources gives the client the data sources of the databases as an earlier run saw them.
func (d *works) recallSources(ctx context.Context) error {
	said, err := d.journal.Meta(ctx, journal.MetaSources)
	if err != nil || said == "" {
		return err
	}
	known := make(map[task.ID]task.ID)
	if err := json.Unmarshal([]byte(said), &known); err != nil {
		return fmt.Errorf("the data sources that the journal knows: %w", err)
	}
	d.notion.RecallSources(known)
	return nil
}

// keepSources stores the data sources of the databases, so that one that is added later stops
// neither this daemon nor the next. It asks Notion at the first start only, while the tasks are
// being read. The function that it returns waits for the result.
func (d *works) keepSources(ctx context.Context) (kept func() error) {
	asking, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
	done := make(chan error, 1)
	go func() { done <- d.storeSources(ctx, asking) }()
	kept = sync.OnceValue(func() error {
		defer cancel()
		return <-done
	})
	d.cleanup = append(d.cleanup, func() error {
		cancel()
		_ = kept() // Start has returned the error, or has given up
		return nil
	})
	return kept
}

func (d *works) storeSources(ctx, asking context.Context) error {
	var ids []task.ID
	for _, id := range []string{d.config.Databases.Tasks, d.config.Databases.TaskLog, d.config.Databases.MeshLog} {
		if id, err := task.ParseID(id); err == nil {
			ids = append(ids, id)
		}
	}
	known, err := d.notion.Sources(asking, ids...)
	if err != nil {
		d.log.Debug("not all data sources are known yet", claim.AttrError, err)
	}
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if said, err := d.journal.Meta(ctx, journal.MetaSources); err != nil || said == string(data) {
		return err
	}
	return d.journal.SetMeta(ctx, journal.MetaSources, string(data))
}
