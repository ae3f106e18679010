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
	for _, query := range []string{`
		DELETE FROM requests WHERE rowid IN (
		SELECT rowid FROM requests
		 WHERE created < ?
		   AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.claim_id AND claims.state <> 'ended')
		 LIMIT ?)`, `
		DELETE FROM claims WHERE rowid IN (
		SELECT rowid FROM claims
		 WHERE ended < ? AND state = 'ended'
		   AND NOT EXISTS (SELECT 1 FROM events JOIN outbox ON outbox.event = events.seq
		                    WHERE events.claim_id = claims.id AND outbox.state <> 'delivered')
		 LIMIT ?)`, `
		DELETE FROM events WHERE seq IN (
		SELECT seq FROM events
		 WHERE at < ?
		   AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.event = events.seq AND outbox.state <> 'delivered')
		   AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = events.against AND claims.state <> 'ended')
		 LIMIT ?)`,
	} {
		n, err := j.pruneBy(ctx, query, before)
		removed += n
		if err != nil {
			return removed, j.failed(err, "pruning the journal")
		}
	}
	return removed, nil
}

// pruneBy runs a query that removes a number of rows older than before, until
// there are no more.
func (j *Journal) pruneBy(ctx context.Context, query string, before time.Time) (removed int, err error) {
	for n := int64(pruneStep); n == pruneStep; removed += int(n) {
		err := j.writeAlone(ctx, func(tx *tx) error {
			var err error
			n, err = affect(ctx, tx, query, before.UnixMilli(), pruneStep)
			return err
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
