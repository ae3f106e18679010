package outbox_test

import (
	"testing"

	"dibs/internal/outbox"
	"dibs/internal/outbox/outboxtest"
)

// The ledger in memory is as ledgers are.
func TestLedger(t *testing.T) {
	outboxtest.LedgerSuite(t, func(*testing.T) outboxtest.World {
		m := outboxtest.NewMemory()
		return outboxtest.World{Ledger: m, Begin: func(*testing.T, int, string) {}, Restart: func() outbox.Ledger { m.Restart(); return m }}
	})
}
