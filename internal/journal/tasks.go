package journal

import (
	"context"
	"encoding/json"

	"dibs/internal/task"
)

// PutTasks puts tasks into the mirror, in place of those with the same id.
func (j *Journal) PutTasks(ctx context.Context, tasks []task.Task) error {
	err := j.writeMany(ctx, len(tasks), func(tx *tx) error {
		for _, t := range tasks {
			body, err := json.Marshal(task.BodyOf(t))
			if err != nil {
				return err
			}
			err = change(ctx, tx, t.ID, `
				INSERT INTO tasks (id, body) VALUES (?, ?)
				    ON CONFLICT (id) DO UPDATE SET body = excluded.body WHERE tasks.body <> excluded.body`, t.ID, string(body))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "putting %d tasks into the mirror", len(tasks))
}

// DeleteTasks removes tasks from the mirror. It ignores those that are not there.
func (j *Journal) DeleteTasks(ctx context.Context, ids []task.ID) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if err := change(ctx, tx, id, "DELETE FROM tasks WHERE id = ?", id); err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "removing %d tasks from the mirror", len(ids))
}

// change runs a statement on the mirror's row of a task. If that changes the row, it notes the
// task for publication.
func change(ctx context.Context, tx *tx, id task.ID, query string, args ...any) error {
	n, err := affect(ctx, tx, query, args...)
	if err == nil && n > 0 {
		_, err = tx.ExecContext(ctx, publishLater+" VALUES (?, 0, 0, 0, '', 1) "+publishAgain, id)
	}
	return err
}

// Tasks returns all tasks of the mirror, sorted by id.
func (j *Journal) Tasks(ctx context.Context) ([]task.Task, error) {
	tasks, err := collect(ctx, j.readers, scanTask, "SELECT body FROM tasks ORDER BY id")
	return tasks, j.failed(err, "reading the mirror")
}

func scanTask(row scanner) (task.Task, error) {
	b, err := scanBody[task.Body](row, "task")
	return b.Whole(), err
}
