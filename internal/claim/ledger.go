package claim

import (
	"context"
	"errors"
	"time"

	"dibs/internal/task"
)

// ErrUnknownClaim is returned by a Ledger for an id it has no record of.
var ErrUnknownClaim = errors.New("no claim with that id")

// Change is what one transaction of a Ledger stores: all of it, or nothing.
type Change struct {
	Holds []Hold
	Marks []Mark
	Facts []Fact
	// Used are ended holds whose Used has grown. Nothing else of them is stored.
	Used []Hold
}

// Ledger is the durable local record of holds, marks and facts: it survives `kill -9`.
// Implementations are safe for concurrent use; each method is one transaction.
type Ledger interface {
	// Reserve gives the task of h to h, unless another hold of this ledger has it. One
	// statement decides, by the rows it affected. A held claim that went stale before now may
	// be taken over. limit is the number of tasks an agent may have at a time, 0 for any. Unless
	// h is brief, a ledger may bar the agent from all tasks for now, see Barred. The returned
	// fence is greater than that of every earlier hold.
	//
	// When refused, Reserve returns why, and records the denial as a fact against the hold that
	// has the task, in the same transaction. Repeated denials may be counted in one fact.
	Reserve(ctx context.Context, h Hold, now time.Time, limit int) (fence int64, refusal *Refusal, err error)

	// Save stores c. A hold that ends gives up its task, and the denials recorded against it
	// are summed up in one fact (see Contested). An ended hold or mark cannot be saved in
	// another state. A change of facts alone skips those whose ids are already on
	// record. An empty change stores nothing, and fails if nothing could be stored.
	Save(ctx context.Context, c Change) error

	// Tries returns the tries at a task, oldest first: those of the facts with TriedAgain since
	// the last fact with TriedOver. The ledger may forget old ones, and those from before a
	// person reopened the task.
	Tries(ctx context.Context, id task.ID) ([]Try, error)

	// Hold returns the hold of that id in any state, or ErrUnknownClaim.
	Hold(ctx context.Context, id ID) (Hold, error)

	// Mark returns the mark of that id in any state, or ErrUnknownClaim.
	Mark(ctx context.Context, id ID) (Mark, error)

	// Live returns the holds and the marks that have not ended, oldest first.
	Live(ctx context.Context) ([]Hold, []Mark, error)
}

// subject returns the id and the task of the first record in c.
func (c Change) subject() (id ID, on task.ID) {
	switch {
	case len(c.Holds) > 0:
		return c.Holds[0].ID, c.Holds[0].Task.ID
	case len(c.Marks) > 0:
		return c.Marks[0].ID, c.Marks[0].Task.ID
	case len(c.Used) > 0:
		return c.Used[0].ID, c.Used[0].Task.ID
	case len(c.Facts) > 0:
		return c.Facts[0].Claim, c.Facts[0].Task
	}
	return "", ""
}

func holding(h Hold, facts ...Fact) Change { return Change{Holds: []Hold{h}, Facts: facts} }

func marking(m Mark, facts ...Fact) Change { return Change{Marks: []Mark{m}, Facts: facts} }
