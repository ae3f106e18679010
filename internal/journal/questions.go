package journal

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
)

// question stores the question that a fact asks, if it asks one, in place of an earlier one
// about the task.
func question(ctx context.Context, tx *tx, e claim.Fact) error {
	q, ok := inbox.Asked(e)
	if !ok {
		return nil
	}
	return keptQuestion.keep(ctx, tx, string(q.Task), q.Agent, q)
}

// Questions returns the open questions of agents.
func (j *Journal) Questions(ctx context.Context) ([]inbox.Question, error) {
	_, questions, err := allKept[inbox.Question](ctx, j.readers, keptQuestion)
	return questions, j.failed(err, "reading the questions")
}

// SetQuestion deletes a question if it is over, else stores it as q, and adds triggers for its
// agent. It does nothing if another question was asked about the task since.
func (j *Journal) SetQuestion(ctx context.Context, q inbox.Question, over bool, news ...inbox.Trigger) (added int, err error) {
	err = j.write(ctx, func(tx *tx) error {
		known, ok, err := kept[inbox.Question](ctx, tx, keptQuestion, string(q.Task))
		if err != nil || !ok || known.ID != q.ID {
			return err
		}
		if over {
			err = keptQuestion.drop(ctx, tx, string(q.Task))
		} else {
			err = keptQuestion.keep(ctx, tx, string(q.Task), q.Agent, q)
		}
		if err != nil {
			return err
		}
		added, err = insertTriggers(ctx, tx, news...)
		return err
	})
	return added, j.failed(err, "storing what became of a question about task %s", q.Task)
}
