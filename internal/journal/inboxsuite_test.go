package journal_test

import (
	"testing"
	"time"

	"dibs/internal/journal/inbox/inboxtest"
)

// The inbox of the journal is as inboxes are.
func TestInbox(t *testing.T) {
	inboxtest.Run(t, func(t *testing.T) *inboxtest.World {
		now := t0
		return &inboxtest.World{
			Doors: []inboxtest.Inbox{newJournal(t)}, Pass: func() {}, Visibility: time.Minute,
			Over: func() { now = now.Add(time.Minute) }, Now: func() time.Time { return now },
		}
	})
}
