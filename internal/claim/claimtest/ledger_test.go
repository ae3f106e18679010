package claimtest_test

import (
	"path/filepath"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/claim/sim"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/testkit/pgtest"
)

func TestLedger(t *testing.T) {
	claimtest.LedgerSuite(t, func(*testing.T) (claim.Ledger, func() []claim.Fact) {
		l := sim.NewLedger()
		return l, l.Events
	})
}

func TestJournal(t *testing.T) {
	t.Run("SQLite", journals)
	t.Run("PostgreSQL", func(t *testing.T) {
		pgtest.Use(t)
		journals(t)
	})
}

func journals(t *testing.T) {
	claimtest.LedgerSuite(t, func(t *testing.T) (claim.Ledger, func() []claim.Fact) {
		j, err := journaltest.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
		return j, func() []claim.Fact {
			events, err := j.Facts(t.Context(), journal.FactFilter{})
			if err != nil {
				t.Fatal(err)
			}
			return events
		}
	})
}
