package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/task"
)

// Tries returns the tries at a task that count, oldest first. See [claim.Ledger].
func (j *Journal) Tries(ctx context.Context, id task.ID) ([]claim.Try, error) {
	tries, err := collect(ctx, j.readers, scanTry, "SELECT body FROM tries WHERE task_id = ? ORDER BY seq", id)
	return tries, j.failed(err, "reading the tries at task %s", id)
}

func scanTry(row scanner) (claim.Try, error) {
	var t claim.Try
	var body []byte
	if err := row.Scan(&body); err != nil {
		return t, err
	}
	if err := json.Unmarshal(body, &t); err != nil {
		return t, fmt.Errorf("the body of a try: %w", err)
	}
	return t, nil
}

// countTry keeps what e means for the tries at its task.
func countTry(ctx context.Context, tx *tx, e claim.Event) error {
	switch e.Tried {
	case claim.TriedOver:
		return forgetTries(ctx, tx, e.Task)
	case claim.TriedAgain:
		body, err := json.Marshal(e.Try())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO tries (task_id, at, body) VALUES (?, ?, ?)", e.Task, millis(e.At), string(body))
		return err
	}
	return nil
}

// reopenedSince forgets the tries at a task that somebody has opened again, as the news say.
func reopenedSince(ctx context.Context, tx *tx, id task.ID, news []feed.Event) error {
	for _, e := range news {
		if e.Kind == feed.Unblocked || e.Kind == feed.Reopened {
			return forgetTries(ctx, tx, id)
		}
	}
	return nil
}

func forgetTries(ctx context.Context, tx *tx, id task.ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM tries WHERE task_id = ?", id)
	return err
}
