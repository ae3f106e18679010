package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/news"
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

// Tasks returns all tasks of the mirror, sorted by id.
func (j *Journal) Tasks(ctx context.Context) ([]task.Task, error) {
	tasks, err := collect(ctx, j.readers, scanTask, "SELECT body FROM tasks ORDER BY id")
	return tasks, j.failed(err, "reading the mirror")
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

// publishLater and publishAgain are the two ends of a statement that notes tasks for
// publication.
const (
	publishLater = "INSERT INTO told (task_id, at, ready, since, body, due)"
	publishAgain = "ON CONFLICT (task_id) DO UPDATE SET due = 1 WHERE told.due = 0"
)

// clearDue takes the task off the list of those that may have news.
func clearDue(ctx context.Context, tx *tx, id task.ID) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM told WHERE task_id = ? AND body = ''", id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE told SET due = 0 WHERE task_id = ? AND due = 1", id)
	return err
}

func scanTask(row scanner) (task.Task, error) {
	b, err := scanBody[task.Body](row, "task")
	return b.Whole(), err
}

// stateBody is the JSON in a state's row.
type stateBody struct {
	task.Body
	Ready bool `json:"ready,omitempty"`
}

func lastPublished(ctx context.Context, tx *tx, id task.ID) (*news.State, error) {
	s, err := scanBody[stateBody](tx.QueryRowContext(ctx, "SELECT body FROM told WHERE task_id = ? AND body <> ''", id), "state")
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &news.State{Task: s.Whole(), Ready: s.Ready}, nil
}

// storePublished stores the state that was published. If that may make tasks that depend on it
// ready, or no longer ready, it notes them for publication, and returns true.
func storePublished(ctx context.Context, tx *tx, at time.Time, before *news.State, after news.State) (more bool, err error) {
	body, err := json.Marshal(stateBody{task.BodyOf(after.Task), after.Ready})
	if err != nil {
		return false, err
	}
	var since time.Time
	if after.Ready {
		since = at // unless the row is ready already: then it keeps its time
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO told (task_id, at, ready, since, body, due) VALUES (?, ?, ?, ?, ?, 0)
		    ON CONFLICT (task_id) DO UPDATE
		   SET at = excluded.at, ready = excluded.ready, body = excluded.body, due = 0,
		       since = CASE WHEN told.ready = 1 AND excluded.ready = 1 THEN told.since ELSE excluded.since END`,
		after.ID, millis(at), flag(after.Ready), millis(since), string(body))
	if err != nil {
		return false, err
	}
	if err := dependOn(ctx, tx, before, after); err != nil {
		return false, err
	}
	// One that is in the trash may have left the mirror, or have come back to it.
	if ended(before) == ended(&after) && !after.Trashed {
		return false, nil
	}
	n, err := affect(ctx, tx, publishLater+" SELECT task_id, 0, 0, 0, '', 1 FROM dependencies WHERE on_id = ? "+publishAgain, after.ID)
	return n > 0, err
}

// ended returns in which way a task has ended, as far as it matters to those that wait for it;
// empty if it has not.
func ended(s *news.State) task.Status {
	switch {
	case s == nil:
		return ""
	case s.Trashed:
		return task.Cancelled
	case s.Status.Finished():
		return s.Status
	}
	return ""
}

// dependOn stores what an unfinished task waits for.
func dependOn(ctx context.Context, tx *tx, before *news.State, after news.State) error {
	if before != nil && len(before.Awaited()) > 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM dependencies WHERE task_id = ?", after.ID); err != nil {
			return err
		}
	}
	if after.Trashed || after.Status.Finished() {
		return nil
	}
	for _, on := range after.Awaited() {
		_, err := tx.ExecContext(ctx, "INSERT INTO dependencies (on_id, task_id) VALUES (?, ?) ON CONFLICT DO NOTHING", on, after.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// stateOf returns the state of t, with its dependencies as the mirror shows them.
func stateOf(ctx context.Context, tx *tx, t task.Task) (news.State, error) {
	var failed error
	blockers := task.Unfinished(t, func(on task.ID) (task.Task, bool) {
		known, err := scanTask(tx.QueryRowContext(ctx, "SELECT body FROM tasks WHERE id = ?", on))
		if errors.Is(err, sql.ErrNoRows) {
			return known, false
		}
		failed = errors.Join(failed, err)
		return known, true
	})
	s := news.NewState(t, blockers)
	if failed != nil {
		return s, failed
	}
	return s, withoutCopy(ctx, tx, &s)
}

// withoutCopy removes the claim from a state if it is a copy of a claim on another task, as on
// a duplicated page: its agent has nothing to do with this task.
func withoutCopy(ctx context.Context, tx *tx, s *news.State) error {
	id := claim.ParseToken(s.Token).ID
	if id == "" {
		return nil
	}
	var agent string
	err := tx.QueryRowContext(ctx, `
		SELECT agent FROM claims WHERE id = ?1 AND task_id <> ?2
		 UNION ALL SELECT agent FROM marks WHERE id = ?1 AND task_id <> ?2
		 LIMIT 1`, id, s.ID).Scan(&agent)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	s.Token = ""
	if s.ClaimedBy != agent {
		return nil
	}
	s.ClaimedBy, s.ClaimedAt = "", time.Time{}
	if s.Status == task.InProgress {
		s.Status = task.Open // nobody is at work on it
	}
	return nil
}
