package broker

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// maxAttempt limits the characters of a text about an earlier attempt.
const maxAttempt = 1000

// attempts returns what became of the earlier claims on a task, the newest first. Without them a
// claim is as good: if the journal cannot be read, there are none.
func (b *Broker) attempts(ctx context.Context, id task.ID) []api.Attempt {
	earlier, err := b.journal.Earlier(ctx, id)
	if err != nil {
		b.log.Warn("a task is shown without its earlier attempts", claim.AttrTask, id, claim.AttrError, err)
		return nil
	}
	return each(earlier, func(f claim.Earlier) api.Attempt {
		text, cut := beginning(task.Plain(f.Text), maxAttempt)
		if cut > 0 {
			text += "…"
		}
		return api.Attempt{Agent: api.Collapse(f.Agent), At: b.time(f.At), Outcome: f.Outcome, Text: text}
	})
}
