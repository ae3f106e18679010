package claim

import (
	"fmt"
	"time"

	"dibs/internal/task"
)

// Policy holds the settings that the protocol depends on. Every daemon on a workspace must have
// the same Timeout, WriteWindow and Settle.
type Policy struct {
	// Timeout is the lease of a task that does not set its own.
	Timeout time.Duration
	// WriteWindow is the longest time from the sending of the pre-flight read
	// to the answer of the claim write.
	WriteWindow time.Duration
	// Settle is the wait between that answer and the verifying read.
	Settle time.Duration
	// OpenOnly leaves IN_PROGRESS tasks with a stale claim to the sweep.
	OpenOnly bool
	// Exclusive says that this daemon is the only claimer, so that Settle need
	// not exceed WriteWindow. With a Settle of zero the page is not read again
	// after a claim write whose answer shows all of it.
	Exclusive bool
	// Grace is how long a void mark stays before the task is reopened, and how long a holder
	// tolerates a suspected late write over its claim. It must be longer than the interval at
	// which holders check their claims plus the time that their requests may take.
	Grace time.Duration
	// Request is the longest time that a request may be on its way before it is given up; 0 if
	// that is not known. A write that was sent while its claim was live must have landed or
	// failed before anybody may override the claim.
	Request time.Duration
	// MaxLifetime is the longest life of a claim, renewals included; 0 for no limit.
	MaxLifetime time.Duration
	// MaxPerAgent is how many tasks an agent may have at a time; 0 for any number.
	MaxPerAgent int
	// MaxAttempts is how many tries at a task may fail before it becomes BLOCKED (see Try); 0
	// for no limit.
	MaxAttempts int
	// Todos says that a task is completed only once the to-dos on its page are ticked. Whoever
	// calls Finish sees to that.
	Todos bool
	// ReviewAll says that completed work is put up for review instead. Whoever calls Finish sees to
	// that.
	ReviewAll bool
	// Review and Failed say whether the board has those statuses.
	Review, Failed bool
	// Words are the board's, for what people are told; nil for the protocol's.
	Words *task.Words
	// NoNote says that the database has no property for the note.
	NoNote bool
}

// Validate refuses settings under which the protocol cannot keep its promise.
func (p Policy) Validate() error {
	switch {
	case p.WriteWindow <= 0:
		return fmt.Errorf("write window %v: must be positive", p.WriteWindow)
	case p.Settle < 0:
		return fmt.Errorf("settle %v: must not be negative", p.Settle)
	case p.Settle <= p.WriteWindow && !p.Exclusive:
		return fmt.Errorf("settle %v must be longer than the write window %v, or two agents could both be granted one task (exclusive lifts this for a daemon that is the only claimer)", p.Settle, p.WriteWindow)
	case p.Timeout < time.Minute:
		return fmt.Errorf("timeout %v: must be at least a minute, as Notion keeps dates to the minute", p.Timeout)
	case p.Timeout <= p.WriteWindow+p.Settle:
		return fmt.Errorf("timeout %v must be longer than write window and settle together (%v)", p.Timeout, p.WriteWindow+p.Settle)
	case p.Request > p.WriteWindow+p.Settle+clockAllowance && !p.Exclusive:
		return fmt.Errorf("a request of %v must not be longer than write window, settle and %v together (%v), or it could land on the claim of the next holder", p.Request, clockAllowance, p.WriteWindow+p.Settle+clockAllowance)
	case p.MaxLifetime < 0 || p.MaxPerAgent < 0 || p.MaxAttempts < 0 || p.Grace < 0:
		return fmt.Errorf("maximum lifetime %v, tasks per agent %d, attempts at a task %d and grace %v must not be negative", p.MaxLifetime, p.MaxPerAgent, p.MaxAttempts, p.Grace)
	}
	return nil
}

// clockAllowance is how far two parties' estimates of Notion's time may differ: the Date header
// is cut to the second, and an answer takes its time.
const clockAllowance = 10 * time.Second
