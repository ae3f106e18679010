package journal_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/journal"
)

// millionEvents is how many events the benchmarks of the history have, over a month.
const millionEvents = 1_000_000

// busy is a journal with a month of events up to t0, of a hundred agents. Its counts are
// those that the events would have made: each minute of it has some of everything.
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
	var script strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for span, keep := range map[time.Duration]time.Duration{history.Fine: history.KeepFine, history.Coarse: history.KeepCoarse} {
		for at := history.Begin(t0, span); t0.Sub(at) < keep; at = at.Add(-span) {
			names := []history.Name{history.Granted, history.Completed, history.Failed, history.Lost, history.Requests, history.Denied(claim.CodeHeld), history.Denied(claim.CodeLostRace)}
			for range int(4 * span / time.Minute) {
				names = append(names, history.Waited(time.Duration(random.ExpFloat64()*float64(5*time.Minute))))
			}
			var counts []string
			for _, name := range names {
				counts = append(counts, fmt.Sprintf("%q:%d", string(name), 1+random.IntN(9)))
			}
			fmt.Fprintf(&script, "INSERT INTO history VALUES (%d, %d, '{%s}');\n", span.Milliseconds(), at.UnixMilli(), strings.Join(counts, ","))
		}
	}
	runSQL(b, path, "BEGIN;"+script.String()+"COMMIT;")
	return open(b, path)
}

// What is asked for after a month in which a million things happened.
func BenchmarkHistory(b *testing.B) {
	j := busy(b)
	for _, asked := range []struct{ hours, points int }{{6, 72}, {24, 480}, {168, 72}, {168, 500}} {
		b.Run(fmt.Sprintf("%dh in %d", asked.hours, asked.points), func(b *testing.B) {
			run(b, 1, func(int) error {
				_, err := j.History(b.Context(), history.Last(t0, asked.hours, asked.points))
				return err
			})
		})
	}
	b.Run("agents", func(b *testing.B) {
		run(b, 1, func(int) error {
			list, err := j.Agents(b.Context(), history.Asking{
				Limit: 500, Since: t0.AddDate(0, 0, -7), DoneSince: t0.Add(-9 * time.Hour), MedianSince: t0.AddDate(0, 0, -7),
			})
			if err == nil && len(list) != 100 {
				err = fmt.Errorf("%d agents", len(list))
			}
			return err
		})
	})
}
