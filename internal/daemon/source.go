package daemon

import (
	"context"
	"encoding/json"
	"time"

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

// recallSources gives the client the data sources of the databases as an earlier run found them. It
// returns that of the tasks; empty if it is not known.
func (d *works) recallSources(ctx context.Context) (tasks task.ID, err error) {
	said, err := d.journal.Meta(ctx, journal.MetaSources)
	var known map[task.ID]notion.Choice
	if err == nil && json.Unmarshal([]byte(said), &known) == nil { // else they are found again
		d.notion.RecallSources(known)
	}
	return known[task.ID(d.config.Databases.Tasks)].Source, err
}

// keepSources stores the data sources of the databases, so that the next run does not look for them.
func (d *works) keepSources(ctx context.Context) error {
	data, err := json.Marshal(d.notion.Sources())
	if err != nil {
		return err
	}
	if said, err := d.journal.Meta(ctx, journal.MetaSources); err != nil || said == string(data) {
		return err
	}
	return d.journal.SetMeta(ctx, journal.MetaSources, string(data))
}
