package mirror

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Source is the tasks database in Notion. A pause is a time for which Notion asks to be left
// alone. The context of a read says how long a pause the read waits for, see Patient.
type Source interface {
	// List lists all unfinished tasks, and those edited at since or later, finished ones
	// (COMPLETED or CANCELLED) too. Of those edited earlier it may leave out the ones that are
	// not for agents, see Config.Scoped. Now and then it calls read with the number read so far.
	List(ctx context.Context, since time.Time, read func(n int)) ([]task.Task, error)
	// EditedSince lists the tasks edited at t or later, finished ones too, and all
	// that are IN_PROGRESS with a claim token.
	EditedSince(ctx context.Context, t time.Time) ([]task.Task, error)
	// Get reads one page; the error is a *claim.StoreError of kind NotFound if there is none.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now returns Notion's time.
	Now() time.Time

	// Check reads the schema with one request, and uses it from then on. The error says
	// why tasks cannot be read.
	Check(ctx context.Context) error
	// Broken returns what is wrong with the schema last read, so that no task can be
	// claimed; nil if nothing is.
	Broken() error
	// Known returns the schema in a form with which a later run can start while Notion is
	// down.
	Known() string

	// Titled returns a task with the titles of the pages that its fields relate to, in place of
	// their ids, as far as they are known. Untitled returns those of its pages whose titles are to
	// be read (again) by PageTitle, with one request each. SetTitle is told what came of it, and
	// reports whether Titled shows something else now. RecallTitles is told tasks of an earlier run.
	Titled(t task.Task) task.Task
	Untitled(t task.Task) []task.ID
	PageTitle(ctx context.Context, id task.ID) (string, error)
	SetTitle(id task.ID, title string, err error) (news bool)
	RecallTitles(tasks []task.Task)

	// Room reports whether requests could be sent now without making anybody wait, and how far
	// apart those of quick syncs must be so that they stay within their share of the rate.
	Room() (free bool, apart time.Duration)
	// Paused returns an error with the time to try again during a long pause; else nil.
	Paused() error
	// Patient returns a context whose reads wait for the end of a pause of up to longest.
	Patient(ctx context.Context, longest time.Duration) context.Context
	// Impatient returns a context for a read that a person or an agent waits for: it waits
	// for the end of a short pause only.
	Impatient(ctx context.Context) context.Context
	// Background returns a context for reads that nobody waits for: claims and logs come first.
	Background(ctx context.Context) context.Context
}

// Storage keeps the mirror across restarts.
type Storage interface {
	Tasks(ctx context.Context) ([]task.Task, error)
	// PutTasks adds tasks, or replaces those of the same id.
	PutTasks(ctx context.Context, tasks []task.Task) error
	DeleteTasks(ctx context.Context, ids []task.ID) error
	Memory
}

// Memory stores a few values by key.
type Memory interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// The storage's keys of the time of the last sync, and of the schema of the tasks database.
const (
	metaSynced = "mirror.synced"
	metaSchema = "notion.tasks"
)

// Schema returns the schema of the tasks database that KeepSchema stored, perhaps in an earlier
// run; empty if there is none.
func Schema(ctx context.Context, m Memory) (string, error) { return m.Meta(ctx, metaSchema) }

// KeepSchema stores the schema of the tasks database, see Source.Known.
func KeepSchema(ctx context.Context, m Memory, known string) error {
	if kept, err := m.Meta(ctx, metaSchema); err != nil || kept == known {
		return err
	}
	return m.SetMeta(ctx, metaSchema, known)
}
