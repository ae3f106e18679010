package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"dibs/internal/journal"
	"dibs/internal/journal/report"
)

// millionEvents is how many events the benchmarks of the history have, over a month.
const millionEvents = 1_000_000

// busy is a journal with a month of events up to t0, of a hundred agents.
func busy(b *testing.B) *journal.Journal {
	b.Helper()
	path := filepath.Join(b.TempDir(), "journal.db")
	j := open(b, path)
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	runSQL(b, path, fmt.Sprintf(`
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d - 1)
		INSERT INTO facts (seq, id, at, task_id, agent, holder, claim_id, logged, body)
		SELECT i + 1, printf('%%026d', i), %[2]d - (%[1]d - i) * %[3]d, 'task' || (i / 3), 'agent' || (i %% 100), '', 'claim' || (i / 3), 1, '{"kind":"granted"}' FROM n;
		UPDATE facts SET took = seq %% 1000000 WHERE seq %% 3 = 0;
		INSERT INTO seen SELECT agent, max(at) FROM facts GROUP BY agent;`,
		millionEvents, t0.UnixMilli(), (30*24*time.Hour).Milliseconds()/millionEvents))
	return open(b, path)
}

// What is asked for after a month in which a million things happened.
func BenchmarkAgents(b *testing.B) {
	j := busy(b)
	b.Run("agents", func(b *testing.B) {
		run(b, 1, func(int) error {
			list, err := j.Agents(b.Context(), report.Asking{
				Limit: 500, Since: t0.AddDate(0, 0, -7), DoneSince: t0.Add(-9 * time.Hour), MedianSince: t0.AddDate(0, 0, -7),
			})
			if err == nil && len(list) != 100 {
				err = fmt.Errorf("%d agents", len(list))
			}
			return err
		})
	})
}
