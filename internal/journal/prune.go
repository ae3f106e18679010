package journal

import (
	"context"
	"time"
)

// pruneStep is how many rows are removed in one transaction, for the sake of
// others who write.
const pruneStep = 500

// keptRecord is a condition on facts that are on record, and stay there at any age: those that
// are still to become an entry of a log, and denials that the contested fact of a live claim
// will count.
const keptRecord = `
	(EXISTS (SELECT 1 FROM owed WHERE owed.fact = facts.seq AND owed.state <> 'delivered')
	 OR EXISTS (SELECT 1 FROM claims WHERE claims.id = facts.against AND claims.state <> 'ended'))`

// Prune removes what is older than before and not needed any more, and returns
// how many rows that were, also if it failed on the way. It leaves alone
//   - facts that are still to become an entry of a log, and denials that the
//     contested fact of a live claim will count;
//   - claims that have not ended, or of which an entry is still owed;
//   - marks that have not ended;
//   - idempotency keys of live claims and of marks.
//
// The keys of requests that were not answered go, too: no request is worked on
// for as long as anything is kept. What agents are still told is only taken off the record.
func (j *Journal) Prune(ctx context.Context, before time.Time) (int, error) {
	return j.pruneAll(ctx, before.UnixMilli(), "pruning the journal",
		pruning{table: "requests", by: "seq", old: `
			created < ?1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.made AND claims.state <> 'ended')
			AND NOT EXISTS (SELECT 1 FROM marks WHERE marks.id = requests.made AND marks.ended = 0)`},
		pruning{table: "owed", by: "seq", old: "id IS NOT NULL AND at < ?1"},
		pruning{table: "claims", by: "id", old: `
			ended < ?1 AND state = 'ended'
			AND NOT EXISTS (SELECT 1 FROM facts JOIN owed ON owed.fact = facts.seq
			                 WHERE facts.claim_id = claims.id AND owed.state <> 'delivered')`},
		pruning{table: "marks", by: "id", old: "ended < ?1 AND ended > 0"},
		pruning{table: "facts", by: "seq", old: "logged = 1 AND at < ?1 AND told IS NULL AND NOT " + keptRecord},
		pruning{table: "facts", set: "logged = 0, tried = NULL, took = NULL", by: "seq", old: "logged = 1 AND at < ?1 AND told IS NOT NULL AND NOT " + keptRecord})
}

// PruneFeed removes what was told before that time, but for the last fact, whose number must
// not be used again, and what is remembered of tasks that left the mirror before it. What is
// on record stays there, and is only told no more. It returns how many facts that were, also
// if it failed on the way.
func (j *Journal) PruneFeed(ctx context.Context, before time.Time) (removed int, err error) {
	// A feed is pruned from its beginning, so that what is left has no holes.
	var first int64
	err = j.readers.QueryRowContext(ctx, `
		SELECT coalesce((SELECT min(told) FROM facts WHERE at >= ? AND told IS NOT NULL),
		                (SELECT max(told) FROM facts WHERE told IS NOT NULL), 0)`, before.UnixMilli()).Scan(&first)
	if err != nil {
		return 0, j.failed(err, "pruning the feed")
	}
	removed, err = j.pruneAll(ctx, first, "pruning the feed",
		pruning{table: "facts", by: "seq", old: "told < ?1 AND logged = 0"},
		pruning{table: "facts", set: "told = NULL", by: "seq", old: "told < ?1 AND logged = 1"})
	if err == nil {
		_, err = j.pruneAll(ctx, before.UnixMilli(), "pruning the feed", pruning{table: "told", by: "task_id", old: `
			at < ?1 AND due = 0 AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = told.task_id)`})
	}
	return removed, err
}

// pruning removes the old rows of a table, or takes from them what is old.
type pruning struct {
	table string
	set   string // what is set in its rows, in place of removing them
	by    string // the table's key
	old   string // the condition, in which ?1 is what they are older than
}

// pruneAll prunes one after the other, and returns how many rows it changed.
func (j *Journal) pruneAll(ctx context.Context, before int64, doing string, all ...pruning) (removed int, err error) {
	for _, p := range all {
		n, err := j.prune(ctx, p, before)
		removed += n
		if err != nil {
			return removed, j.failed(err, "%s", doing)
		}
	}
	return removed, nil
}

// prune prunes a step at a time.
func (j *Journal) prune(ctx context.Context, p pruning, before int64) (removed int, err error) {
	rows := "SELECT " + p.by + " FROM " + p.table + " WHERE " + p.old + " LIMIT ?2"
	change := "DELETE FROM " + p.table
	if p.set != "" {
		change = "UPDATE " + p.table + " SET " + p.set
	}
	for {
		// To look through all that is kept takes long. A reader does it, and the
		// writer stops at the last row that it found.
		var found int
		err := j.readers.QueryRowContext(ctx, "SELECT count(*) FROM ("+rows+") AS old", before, pruneStep).Scan(&found)
		if err != nil || found == 0 {
			return removed, err
		}
		err = j.writeAlone(ctx, func(tx *tx) error {
			n, err := affect(ctx, tx, change+" WHERE "+p.by+" IN ("+rows+")", before, found)
			removed += int(n)
			return err
		})
		if err != nil {
			return removed, err
		}
	}
}
