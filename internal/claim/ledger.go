package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
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

// Refusal says why a reservation was refused: Holder is the claim that has the task, or Limit
// is set because the agent has as many tasks as it may, or Barred because it gets none for now.
type Refusal struct {
	Holder *Hold
	Limit  bool
	Barred *Barred
}

// Barred says why an agent is granted nothing for now, whatever the task.
type Barred struct {
	Code   Code      // CodePaused or CodeLimitReached
	By     string    // who paused
	Until  time.Time // zero if that is not known
	Detail string    // why, in one line
}

// deny returns the denial of the claim c.
func (b Barred) deny(c Hold) *Denied {
	return &Denied{Code: b.Code, Task: c.Task, Holder: b.By, ExpiresAt: b.Until, Reach: ReachBarred, Detail: b.Detail}
}

// Denied returns the denial of any task.
func (b Barred) Denied() *Denied { return b.deny(Hold{}) }

// Fact returns the denial of c at now as a fact. limit is the number of tasks that an agent may
// have at a time.
func (r Refusal) Fact(c Hold, now time.Time, limit int) Fact {
	e := c.fact(KindDenied, now)
	if r.Limit {
		e.Code, e.Detail = CodeLimitReached, tooMany(c, limit)
		return e
	}
	if b := r.Barred; b != nil {
		e.Code, e.Holder, e.Detail, e.Expires = b.Code, b.By, b.Detail, b.Until
		return e
	}
	h := r.Holder
	e.Code, e.Holder, e.Against, e.Detail = CodeHeld, h.Agent, h.ID, h.occupies()
	if h.State == Held {
		e.Expires = h.ExpiresAt()
	}
	e.Title, e.URL = cmp.Or(e.Title, h.Task.Title), cmp.Or(e.URL, h.Task.URL)
	return e
}

// deny returns what the agent of c, which was refused, is told. has are the claims that it
// holds or is finishing.
func (r Refusal) deny(c Hold, limit int, has []Hold) *Denied {
	if r.Limit {
		detail := tooMany(c, limit)
		if len(has) > 0 {
			detail += ": " + TasksOf(has)
		}
		return &Denied{
			Code: CodeLimitReached, Task: c.Task, Reach: ReachLocal, Has: has, Detail: detail + "; finish or release one first",
		}
	}
	if r.Barred != nil {
		return r.Barred.deny(c)
	}
	return Occupied(*r.Holder)
}

func tooMany(c Hold, limit int) string {
	return fmt.Sprintf("%s already holds as many tasks as it may (%d)", c.Agent, limit)
}

// maxNamed is the most tasks named in a line.
const maxNamed = 5

// TasksOf names the tasks of claims in one line.
func TasksOf(claims []Hold) string {
	var names []string
	for i, c := range claims {
		if i == maxNamed {
			names = append(names, "…")
			break
		}
		names = append(names, strings.TrimSpace(c.Task.Key+" “"+cmp.Or(c.Task.Title, string(c.Task.ID))+"”"))
	}
	return strings.Join(names, ", ")
}

// Occupied returns the denial of a task that is reserved by a claim held here.
func Occupied(h Hold) *Denied {
	d := &Denied{
		Code: CodeHeld, Task: h.Task, Holder: h.Agent, Reach: ReachLocal,
		Detail: h.occupies() + "; ask for the next ready task instead",
	}
	if h.State == Held {
		d.ExpiresAt = h.ExpiresAt()
	}
	return d
}

// occupies says how c keeps its task from others.
func (c Hold) occupies() string {
	switch c.State {
	case Held:
		return fmt.Sprintf("%s holds %q", c.Agent, c.Task.Title)
	case Finishing:
		return fmt.Sprintf("%s is done with %q and Notion has yet to be told", c.Agent, c.Task.Title)
	}
	return c.Agent + " is claiming the task at this moment"
}

// PassedOver returns one fact for an agent's request for the next task that was denied, one or
// more times, because the tasks were held by others or not open any more. id is that of the
// first attempt.
func PassedOver(agent string, id ID, at time.Time, denials []*Denied) Fact {
	first := denials[0]
	e := Hold{ID: id, Agent: agent, Task: first.Task}.fact(KindDenied, at)
	e.Code, e.Holder, e.Detail, e.Remote = first.Code, first.Holder, first.Detail, true
	if n := len(denials); n > 1 {
		e.Count = n
		e.Detail = fmt.Sprintf("%d tasks that looked ready were taken by others, or not open any more, when their pages were read, the first being %q", n, first.Task.Title)
	}
	return e
}
