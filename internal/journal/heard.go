package journal

import "dibs/internal/claim"

// Stored is a fact that was just stored.
type Stored struct {
	claim.Fact
	// Recorded is set if the fact is on record. Else it is a change that was seen on the board.
	Recorded bool
}

// Hear has hear called with the facts of each transaction from now on, once they are durable, in
// the order of storing. So each fact is heard once, and only by the process that stored it: not
// again after a restart, nor by another member. A process that dies between the two was not heard
// to say it; the fact is in the journal.
//
// The next transaction waits for the call, which must be short and must not use the journal.
func (j *Journal) Hear(hear func([]Stored)) { j.writer.hear.Store(&hear) }

// tell passes on the facts of a transaction.
func (w *writer) tell(facts []Stored) {
	if hear := w.hear.Load(); hear != nil && len(facts) > 0 {
		(*hear)(facts)
	}
}
