package journal

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/inbox"
)

// question takes note of the question that a fact asks, if it does, in the place of an
// earlier one about the task.
func question(ctx context.Context, tx *tx, e claim.Fact) error {
	q, ok := inbox.Asked(e)
	if !ok {
		return nil
	}
	return keptQuestion.keep(ctx, tx, string(q.Task), q.Agent, q)
}

// Questions returns those that agents wait for the answers of.
func (j *Journal) Questions(ctx context.Context) ([]inbox.Question, error) {
	_, questions, err := allKept[inbox.Question](ctx, j.readers, keptQuestion)
	return questions, j.failed(err, "reading the questions")
}

// SetQuestion stores what has become of a question: it is over, or as q says; and what
// its agent is told. One that was asked about the task since is left as it is.
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
