package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"dibs/internal/claim"
	"dibs/internal/inbox"
)

// question takes note of the question that an event asks, if it does, in the place of an
// earlier one about the task.
func question(ctx context.Context, tx *tx, e claim.Event) error {
	q, ok := inbox.Asked(e)
	if !ok {
		return nil
	}
	return putQuestion(ctx, tx, q)
}

func putQuestion(ctx context.Context, tx *tx, q inbox.Question) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO questions (task_id, id, agent, body) VALUES (?, ?, ?, ?)
		    ON CONFLICT (task_id) DO UPDATE SET id = excluded.id, agent = excluded.agent, body = excluded.body`,
		q.Task, q.ID, q.Agent, string(body))
	return err
}

// Questions returns those that agents wait for the answers of.
func (j *Journal) Questions(ctx context.Context) ([]inbox.Question, error) {
	questions, err := collect(ctx, j.readers, func(row scanner) (inbox.Question, error) {
		var q inbox.Question
		var body []byte
		if err := row.Scan(&body); err != nil {
			return q, err
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return q, fmt.Errorf("the body of a question: %w", err)
		}
		return q, nil
	}, "SELECT body FROM questions")
	return questions, j.failed(err, "reading the questions")
}

// SetQuestion stores what has become of a question: it is over, or as q says; and what
// its agent is told. One that was asked about the task since is left as it is.
func (j *Journal) SetQuestion(ctx context.Context, q inbox.Question, over bool, news ...inbox.Trigger) (added int, err error) {
	err = j.write(ctx, func(tx *tx) error {
		n, err := affect(ctx, tx, "DELETE FROM questions WHERE task_id = ? AND id = ?", q.Task, q.ID)
		if err != nil || n == 0 {
			return err
		}
		if !over {
			if err := putQuestion(ctx, tx, q); err != nil {
				return err
			}
		}
		added, err = insertTriggers(ctx, tx, news...)
		return err
	})
	return added, j.failed(err, "storing what became of a question about task %s", q.Task)
}
