package daemon

import (
	"fmt"
	"time"

	"dibs/internal/claim"
)

const (
	// onItsWay is how long a request may be on its way to Notion, which ends it after a minute.
	onItsWay = 65 * time.Second
	// readSoon is when to ask again while the board is being read.
	readSoon = 5 * time.Second
)

// closed returns why nothing is granted yet after a loss: a write of a lost claim may still arrive,
// and one that has arrived has to be seen.
func (d *works) closed() error {
	lost := d.journal.Lost()
	_, ago := lost.Ago()
	left := onItsWay - ago
	switch {
	case lost.Until.IsZero():
		return nil
	case left > 0:
	case !d.mirror.Listed():
		left = readSoon
	default:
		return nil
	}
	return &claim.JournalError{RetryAfter: left, Err: fmt.Errorf("%s; nothing is granted until lost writes have arrived and the board was read", lost)}
}
