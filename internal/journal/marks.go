package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// putMark inserts or updates the row of m, unless it says that m has ended.
func putMark(ctx context.Context, tx *tx, m claim.Mark) error {
	if m.State == claim.Gone && m.Ended.IsZero() {
		return errors.New("it is to end, and does not say when")
	}
	body, err := json.Marshal(markBody{Mark: m, Task: task.BodyOf(m.Task)})
	if err != nil {
		return err
	}
	n, err := affect(ctx, tx, `
		INSERT INTO marks (id, task_id, agent, ended, body)
		VALUES (?, ?, ?, ?, ?)
		    ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, ended = excluded.ended, body = excluded.body
		 WHERE marks.ended = 0 AND marks.task_id = excluded.task_id`,
		m.ID, m.Task.ID, m.Agent, millis(m.Ended), string(body))
	if err == nil && n == 0 {
		err = ErrEnded
	}
	return err
}

// Mark returns the mark of that id in whatever state it is, or [claim.ErrUnknownClaim].
func (j *Journal) Mark(ctx context.Context, id claim.ID) (claim.Mark, error) {
	m, err := scanMark(j.readers.QueryRowContext(ctx, "SELECT body FROM marks WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		err = claim.ErrUnknownClaim
	}
	return m, j.failed(err, "reading mark %s", id)
}

// markBody is a mark as its row's body holds it: its task with all its fields.
type markBody struct {
	claim.Mark
	Task task.Body `json:"task"` // instead of Mark.Task
}

func scanMark(row scanner) (claim.Mark, error) {
	b, err := scanBody[markBody](row, "mark")
	b.Mark.Task = b.Task.Whole()
	return b.Mark, err
}
