package sim_test

import (
	"testing"

	"dibs/internal/claim"
	"dibs/internal/claim/ledgertest"
	"dibs/internal/claim/sim"
)

func TestLedger(t *testing.T) {
	ledgertest.Suite(t, func(*testing.T) (claim.Ledger, func() []claim.Fact) {
		l := sim.NewLedger()
		return l, l.Events
	})
}
