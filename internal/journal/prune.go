package journal

import (
	"context"
	"database/sql"
	"time"
)

// Prune removes what is older than before and not needed any more, and returns
// how many rows that were. It leaves alone
//   - events that are still to become an entry of a log, and denials that the
//     contested event of a live claim will count;
//   - claims that have not ended, or of which an entry is still owed;
//   - idempotency keys of requests in flight, and of live claims.
func (j *Journal) Prune(ctx context.Context, before time.Time) (int, error) {
	removed := 0
	err := j.write(ctx, func(tx *sql.Conn) error {
		for _, query := range []string{`
			DELETE FROM requests
			 WHERE created < ? AND state <> 'in_flight'
			   AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.claim_id AND claims.state <> 'ended')`, `
			DELETE FROM claims
			 WHERE ended < ? AND state = 'ended'
			   AND NOT EXISTS (SELECT 1 FROM events JOIN outbox ON outbox.event = events.seq
			                    WHERE events.claim_id = claims.id AND outbox.state <> 'delivered')`, `
			DELETE FROM events
			 WHERE at < ?
			   AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.event = events.seq AND outbox.state <> 'delivered')
			   AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = events.against AND claims.state <> 'ended')`,
		} {
			n, err := affect(ctx, tx, query, before.UnixMilli())
			if err != nil {
				return err
			}
			removed += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, j.failed(err, "pruning the journal")
	}
	return removed, nil
}
