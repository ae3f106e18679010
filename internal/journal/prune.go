package journal

import (
	"context"
	"time"
)

// pruneStep is how many rows are removed in one transaction, so that other writers need not
// wait long.
const pruneStep = 500

// keptRecord is a condition on facts that stay on record at any age: those that Notion is still
// owed as a log entry, and denials that the contested fact of a live claim will count.
const keptRecord = `
	(EXISTS (SELECT 1 FROM owed WHERE owed.fact = facts.seq AND owed.state <> 'delivered')
	 OR EXISTS (SELECT 1 FROM claims WHERE claims.id = facts.against AND claims.state <> 'ended'))`

// Prune removes what is older than before and no longer needed. It returns the number of rows
// removed, also when it fails on the way. It keeps
//   - facts that Notion is still owed as a log entry, and denials that the contested fact of a
//     live claim will count;
//   - claims that have not ended, whose log entries are still owed, or of which a mark is left;
//   - what the kept claims used;
//   - marks that have not ended;
//   - idempotency keys of live claims and of marks.
//
// It also removes the keys of unanswered requests: no request runs for that long. Facts that
// are still in the feed are only taken off the record.
func (j *Journal) Prune(ctx context.Context, before time.Time) (int, error) {
	return j.pruneAll(ctx, before.UnixMilli(), "pruning the journal",
		pruning{table: "requests", by: "seq", old: `
			created < ?1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.made AND claims.state <> 'ended')
			AND NOT EXISTS (SELECT 1 FROM marks WHERE marks.id = requests.made AND marks.ended = 0)`},
		pruning{table: "owed", by: "seq", old: "id IS NOT NULL AND at < ?1"},
		pruning{table: "claims", by: "id", old: `
			ended < ?1 AND state = 'ended'
			AND NOT EXISTS (SELECT 1 FROM marks WHERE marks.id = claims.id AND marks.ended = 0)
			AND NOT EXISTS (SELECT 1 FROM facts JOIN owed ON owed.fact = facts.seq
			                 WHERE facts.claim_id = claims.id AND owed.state <> 'delivered')`},
		pruning{table: "used", by: "claim_id", old: `
			start < ?1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = used.claim_id)
			AND NOT EXISTS (SELECT 1 FROM used AS later WHERE later.claim_id = used.claim_id AND later.start >= ?1)`},
		pruning{table: "marks", by: "id", old: "ended < ?1 AND ended > 0"},
		pruning{table: "facts", by: "seq", old: "at < ?1 AND told IS NULL AND NOT " + keptRecord},
		pruning{table: "facts", set: "logged = 0, tried = NULL, took = NULL", by: "seq", old: "logged = 1 AND at < ?1 AND told IS NOT NULL AND NOT " + keptRecord})
}

// PruneFeed removes facts from the feed that happened before that time, except the last one,
// whose number must not be used again. It also forgets tasks that left the mirror before then. The
// facts themselves stay until Prune. It returns the number of facts removed, also when it fails on
// the way.
func (j *Journal) PruneFeed(ctx context.Context, before time.Time) (removed int, err error) {
	// A feed is pruned from its beginning, so that the rest has no gaps.
	var first int64
	err = j.readers.QueryRowContext(ctx, `
		SELECT coalesce((SELECT min(told) FROM facts WHERE at >= ? AND told IS NOT NULL),
		                (SELECT max(told) FROM facts WHERE told IS NOT NULL), 0)`, before.UnixMilli()).Scan(&first)
	if err != nil {
		return 0, j.failed(err, "pruning the feed")
	}
	removed, err = j.pruneAll(ctx, first, "pruning the feed",
		pruning{table: "facts", set: "told = NULL", by: "seq", old: "told < ?1"})
	if err == nil {
		_, err = j.pruneAll(ctx, before.UnixMilli(), "pruning the feed", pruning{table: "told", by: "task_id", old: `
			at < ?1 AND due = 0 AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = told.task_id)`})
	}
	return removed, err
}

// PruneInbox removes triggers stored and last taken before that time, and agents that have not
// polled since. It returns the number of triggers removed. It keeps triggers for comments that
// may be read again, so that the agent does not get them twice.
func (j *Journal) PruneInbox(ctx context.Context, before time.Time) (removed int, err error) {
	removed, err = j.prune(ctx, pruning{table: "triggers", by: "seq", old: `
		at < ?1 AND taken < ?1
		AND NOT (type = 'comment' AND (
			EXISTS (SELECT 1 FROM kept WHERE kept.kind = 'question' AND kept.agent = triggers.agent)
			OR EXISTS (SELECT 1 FROM claims WHERE claims.agent = triggers.agent AND ` + unended + `)))`}, before.UnixMilli())
	if err == nil {
		_, err = j.prune(ctx, pruning{table: "pollers", by: "agent", old: "polled < ?1 AND lead = 0"}, before.UnixMilli())
	}
	return removed, j.failed(err, "pruning the inbox")
}

// PruneSeen removes agents that were last seen before that time. It returns the number of rows
// removed, also when it fails on the way.
func (j *Journal) PruneSeen(ctx context.Context, before time.Time) (removed int, err error) {
	removed, err = j.prune(ctx, pruning{table: "seen", by: "agent", old: "at < ?1"}, before.UnixMilli())
	return removed, j.failed(err, "pruning who was seen")
}

// Compact returns the space of removed rows to the file system.
func (j *Journal) Compact(ctx context.Context) error {
	return j.failed(j.engine.compact(ctx, j.writer), "compacting the journal")
}

// pruning deletes the old rows of a table, or clears columns in them.
type pruning struct {
	table string
	set   string // the columns to set; empty to delete the rows
	by    string // the table's key
	old   string // the condition on old rows; ?1 is the limit
}

// pruneAll does one pruning after the other. It returns the number of rows changed.
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

// prune does a pruning, in steps of pruneStep rows.
func (j *Journal) prune(ctx context.Context, p pruning, before int64) (removed int, err error) {
	rows := "SELECT " + p.by + " FROM " + p.table + " WHERE " + p.old + " LIMIT CAST(?2 AS BIGINT)"
	change := "DELETE FROM " + p.table
	if p.set != "" {
		change = "UPDATE " + p.table + " SET " + p.set
	}
	for {
		// Scanning the table takes long, so a reader does it. The writer then stops at the
		// last row that the reader found.
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
