package owed_test

import (
	"testing"

	"dibs/internal/owed"
	"dibs/internal/owed/owedtest"
)

// The ledger in memory is as ledgers are.
func TestLedger(t *testing.T) {
	owedtest.LedgerSuite(t, func(*testing.T) owedtest.World {
		m := owedtest.NewMemory()
		return owedtest.World{Ledger: m, Begin: func(*testing.T, int, string) {}, Restart: func() owed.Ledger { m.Restart(); return m }}
	})
}
