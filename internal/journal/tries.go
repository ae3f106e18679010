package journal

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Tries returns the tries at a task that still count, oldest first. See [claim.Ledger].
func (j *Journal) Tries(ctx context.Context, id task.ID) ([]claim.Try, error) {
	tries, err := collect(ctx, j.readers, func(row scanner) (claim.Try, error) {
		e, err := scanBody[claim.Fact](row, "fact")
		return e.Try(), err
	}, "SELECT body FROM facts WHERE task_id = ? AND tried IS NOT NULL ORDER BY seq", id)
	return tries, j.failed(err, "reading the tries at task %s", id)
}

// Earlier returns the newest ends of claims on a task, the newest first, as far as they are on record.
func (j *Journal) Earlier(ctx context.Context, id task.ID) ([]claim.Earlier, error) {
	earlier, err := collect(ctx, j.readers, func(row scanner) (claim.Earlier, error) {
		e, err := scanBody[claim.Fact](row, "fact")
		f, _ := e.Earlier()
		return f, err
	}, "SELECT body FROM facts WHERE task_id = ? AND earlier IS NOT NULL ORDER BY seq DESC"+upTo, id, claim.MostEarlier)
	return earlier, j.failed(err, "reading what became of earlier claims on task %s", id)
}

// reopenedSince forgets the tries at a task if the changes say that somebody opened it again.
func reopenedSince(ctx context.Context, tx *tx, id task.ID, changed []claim.Fact) error {
	for _, f := range changed {
		if f.Kind == claim.KindUnblocked || f.Kind == claim.KindReopened {
			return forgetTries(ctx, tx, id)
		}
	}
	return nil
}

func forgetTries(ctx context.Context, tx *tx, id task.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE facts SET tried = NULL WHERE task_id = ? AND tried IS NOT NULL", id)
	return err
}
