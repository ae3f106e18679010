package broker

import (
	"context"
	"slices"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// maxAttempt limits the characters of a text about an earlier attempt.
const maxAttempt = 1000

// AddAttempts adds to the tasks of claims what became of the earlier claims on them, the newest
// first. A claim works without them: if the journal cannot be read, they are left out.
func (b *Broker) AddAttempts(ctx context.Context, claims ...*api.Claim) {
	// An answer waits a moment for them, and is not refused without them.
	ctx, cancel := context.WithTimeout(claim.Patience(ctx, nil), claim.Silence)
	defer cancel()
	for _, c := range claims {
		earlier, err := b.earlier(ctx, c.Task.ID)
		if err != nil {
			return
		}
		c.Task.Attempts = b.attempts(slices.DeleteFunc(earlier, func(e claim.Earlier) bool { return !e.Precedes(c.ID) }))
	}
}

func (b *Broker) earlier(ctx context.Context, id task.ID) ([]claim.Earlier, error) {
	earlier, err := b.journal.Earlier(ctx, id)
	if err != nil {
		b.log.Warn("a task is shown without its earlier attempts", claim.AttrTask, id, claim.AttrError, err)
	}
	return earlier, err
}

func (b *Broker) attempts(earlier []claim.Earlier) []api.Attempt {
	return each(earlier, func(f claim.Earlier) api.Attempt {
		text, cut := beginning(task.Plain(f.Text), maxAttempt)
		if cut > 0 {
			text += "…"
		}
		return api.Attempt{Agent: api.Collapse(f.Agent), At: b.time(f.At), Outcome: f.Outcome, Text: text}
	})
}
