package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// PutTasks puts tasks that were read at readAt into the mirror, and returns
// those that are new there or different. A task of which the mirror has a later
// reading is left alone; of two readings at the same time, the last one put
// counts.
func (j *Journal) PutTasks(ctx context.Context, tasks []task.Task, readAt time.Time) ([]task.Change, error) {
	var changed []task.Change
	err := j.write(ctx, func(tx *sql.Conn) (err error) {
		changed, err = putTasks(ctx, tx, tasks, readAt)
		return err
	})
	if err != nil {
		return nil, j.failed(err, "putting %d tasks into the mirror", len(tasks))
	}
	return changed, nil
}

// ReplaceUnfinished is PutTasks for a listing of all unfinished tasks, read at
// readAt. Tasks that are unfinished in the mirror, not in the listing and of
// which the mirror has no later reading are removed, and returned in gone.
func (j *Journal) ReplaceUnfinished(ctx context.Context, tasks []task.Task, readAt time.Time) (changed []task.Change, gone []task.Task, err error) {
	listed := make(map[task.ID]bool, len(tasks))
	for _, t := range tasks {
		listed[t.ID] = true
	}
	err = j.write(ctx, func(tx *sql.Conn) (err error) {
		changed, err = putTasks(ctx, tx, tasks, readAt)
		if err != nil {
			return err
		}
		known, err := collect(ctx, tx, scanTask,
			"SELECT body FROM tasks WHERE finished = 0 AND seen <= ? ORDER BY id", readAt.UnixMilli())
		if err != nil {
			return err
		}
		for _, t := range known {
			if listed[t.ID] {
				continue
			}
			if err := deleteTask(ctx, tx, t.ID); err != nil {
				return err
			}
			gone = append(gone, t)
		}
		return nil
	})
	if err != nil {
		return nil, nil, j.failed(err, "replacing the unfinished tasks of the mirror")
	}
	return changed, gone, nil
}

func putTasks(ctx context.Context, tx *sql.Conn, tasks []task.Task, readAt time.Time) ([]task.Change, error) {
	known, err := tx.PrepareContext(ctx, "SELECT body FROM tasks WHERE id = ?")
	if err != nil {
		return nil, err
	}
	defer known.Close()
	put, err := tx.PrepareContext(ctx, `
		INSERT INTO tasks (id, finished, seen, body) VALUES (:id, :finished, :seen, :body)
		    ON CONFLICT (id) DO UPDATE
		   SET finished = excluded.finished, seen = excluded.seen, body = excluded.body
		 WHERE tasks.seen <= excluded.seen`)
	if err != nil {
		return nil, err
	}
	defer put.Close()

	var changed []task.Change
	for _, t := range tasks {
		after, err := json.Marshal(bodyOf(t))
		if err != nil {
			return nil, err
		}
		var before []byte
		err = known.QueryRowContext(ctx, t.ID).Scan(&before)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		result, err := put.ExecContext(ctx, sql.Named("id", t.ID), sql.Named("finished", t.Status.Finished()),
			sql.Named("seen", readAt.UnixMilli()), sql.Named("body", string(after)))
		if err != nil {
			return nil, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n == 0 || string(before) == string(after) {
			continue
		}
		change := task.Change{After: t}
		if before != nil {
			b, err := decodeTask(before)
			if err != nil {
				return nil, err
			}
			change.Before = &b
		}
		changed = append(changed, change)
	}
	return changed, nil
}

// Task returns the mirror's task of that id and when it was read, and false if
// the mirror has none.
func (j *Journal) Task(ctx context.Context, id task.ID) (t task.Task, readAt time.Time, ok bool, err error) {
	var body []byte
	var seen int64
	err = j.readers.QueryRowContext(ctx, "SELECT body, seen FROM tasks WHERE id = ?", id).Scan(&body, &seen)
	if errors.Is(err, sql.ErrNoRows) {
		return task.Task{}, time.Time{}, false, nil
	}
	if err == nil {
		t, err = decodeTask(body)
	}
	if err != nil {
		return task.Task{}, time.Time{}, false, j.failed(err, "reading task %s of the mirror", id)
	}
	return t, moment(seen), true, nil
}

// Tasks returns all tasks of the mirror, in the order in which they are offered.
func (j *Journal) Tasks(ctx context.Context) ([]task.Task, error) {
	tasks, err := collect(ctx, j.readers, scanTask, "SELECT body FROM tasks")
	if err != nil {
		return nil, j.failed(err, "reading the mirror")
	}
	task.Sort(tasks)
	return tasks, nil
}

// DeleteTask removes a task from the mirror, if it is there.
func (j *Journal) DeleteTask(ctx context.Context, id task.ID) error {
	err := j.write(ctx, func(tx *sql.Conn) error { return deleteTask(ctx, tx, id) })
	return j.failed(err, "removing task %s from the mirror", id)
}

func deleteTask(ctx context.Context, tx *sql.Conn, id task.ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM tasks WHERE id = ?", id)
	return err
}

// taskBody is a task as bodies hold it: with the fields that the JSON of a
// [task.Task] leaves out.
type taskBody struct {
	task.Task
	Token   string        `json:"token,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
}

func bodyOf(t task.Task) taskBody {
	return taskBody{Task: t, Token: t.Token, Timeout: t.Timeout}
}

func (b taskBody) task() task.Task {
	b.Task.Token, b.Task.Timeout = b.Token, b.Timeout
	return b.Task
}

func scanTask(row scanner) (task.Task, error) {
	var body []byte
	if err := row.Scan(&body); err != nil {
		return task.Task{}, err
	}
	return decodeTask(body)
}

func decodeTask(body []byte) (task.Task, error) {
	var b taskBody
	if err := json.Unmarshal(body, &b); err != nil {
		return task.Task{}, fmt.Errorf("the body of a task: %w", err)
	}
	return b.task(), nil
}
