package journal

import (
	"context"
	"time"
)

// pruneStep is how many rows are removed in one transaction, for the sake of
// others who write.
const pruneStep = 500

// Prune removes what is older than before and not needed any more, and returns
// how many rows that were, also if it failed on the way. It leaves alone
//   - events that are still to become an entry of a log, and denials that the
//     contested event of a live claim will count;
//   - claims that have not ended, or of which an entry is still owed;
//   - idempotency keys of live claims.
//
// The keys of requests that were not answered go, too: no request is worked on
// for as long as anything is kept.
func (j *Journal) Prune(ctx context.Context, before time.Time) (int, error) {
	removed := 0
	for _, q := range []struct{ from, id, old string }{
		{"requests", "seq", `
			created < ?1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.made AND claims.state <> 'ended')`},
		{"owed", "seq", "id IS NOT NULL AND at < ?1"},
		{"claims", "id", `
			ended < ?1 AND state = 'ended'
			AND NOT EXISTS (SELECT 1 FROM events JOIN owed ON owed.event = events.seq
			                 WHERE events.claim_id = claims.id AND owed.state <> 'delivered')`},
		{"events", "seq", `
			at < ?1
			AND NOT EXISTS (SELECT 1 FROM owed WHERE owed.event = events.seq AND owed.state <> 'delivered')
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = events.against AND claims.state <> 'ended')`},
	} {
		n, err := j.prune(ctx, q.from, q.id, q.old, before.UnixMilli())
		removed += n
		if err != nil {
			return removed, j.failed(err, "pruning the journal")
		}
	}
	return removed, nil
}

// prune removes the old rows of a table, a step at a time. id is the table's key,
// and old the condition, in which ?1 is before.
func (j *Journal) prune(ctx context.Context, table, id, old string, before int64) (removed int, err error) {
	rows := "SELECT " + id + " FROM " + table + " WHERE " + old + " LIMIT ?2"
	for {
		// To look through all that is kept takes long. A reader does it, and the
		// writer stops at the last row that it found.
		var found int
		err := j.readers.QueryRowContext(ctx, "SELECT count(*) FROM ("+rows+") AS old", before, pruneStep).Scan(&found)
		if err != nil || found == 0 {
			return removed, err
		}
		err = j.writeAlone(ctx, func(tx *tx) error {
			n, err := affect(ctx, tx, "DELETE FROM "+table+" WHERE "+id+" IN ("+rows+")", before, found)
			removed += int(n)
			return err
		})
		if err != nil {
			return removed, err
		}
	}
}
