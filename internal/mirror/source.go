package mirror

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Source is the tasks database in Notion. When Notion asks to be left alone for a while,
// that is a pause. The context of a read says how long a pause it waits for, see Patient.
type Source interface {
	// List lists all tasks that are neither COMPLETED nor CANCELLED, and the
	// finished ones edited at since or later. It tells read, now and then, how
	// many it has read so far.
	List(ctx context.Context, since time.Time, read func(n int)) ([]task.Task, error)
	// EditedSince lists the tasks edited at t or later, finished ones too, and all
	// that are IN_PROGRESS with a claim token.
	EditedSince(ctx context.Context, t time.Time) ([]task.Task, error)
	// Get reads one page; a *claim.StoreError of kind NotFound says there is none.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now is Notion's time.
	Now() time.Time

	// Check reads the schema with one request, and goes by it from then on. The
	// error says why tasks cannot be read.
	Check(ctx context.Context) error
	// Broken says what is wrong with the schema as it was read last, so that no
	// task can be claimed; nil if nothing is.
	Broken() error
	// Known is the schema in a form that a later run can start with while Notion
	// is down.
	Known() string

	// Paused says that there is a long pause, and when to try again; nil if there
	// is none.
	Paused() error
	// Patient returns a context whose reads wait for the end of a pause that is no
	// longer than longest.
	Patient(ctx context.Context, longest time.Duration) context.Context
	// Impatient returns a context for what a person or an agent waits for: its reads
	// wait for the end of a short pause only.
	Impatient(ctx context.Context) context.Context
}

// Storage keeps the mirror across restarts.
type Storage interface {
	Tasks(ctx context.Context) ([]task.Task, error)
	// PutTasks adds tasks, or replaces those of the same id.
	PutTasks(ctx context.Context, tasks []task.Task) error
	DeleteTasks(ctx context.Context, ids []task.ID) error
	Memory
}

// Memory keeps a few values, by their keys.
type Memory interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// The keys under which the storage keeps the time of the last sync, and the schema
// of the tasks database.
const (
	metaSynced = "mirror.synced"
	metaSchema = "notion.tasks"
)

// Schema returns the schema of the tasks database that was kept last, by an earlier
// run perhaps; empty if none was.
func Schema(ctx context.Context, m Memory) (string, error) { return m.Meta(ctx, metaSchema) }

// KeepSchema keeps the schema of the tasks database, see Source.Known.
func KeepSchema(ctx context.Context, m Memory, known string) error {
	if kept, err := m.Meta(ctx, metaSchema); err != nil || kept == known {
		return err
	}
	return m.SetMeta(ctx, metaSchema, known)
}
