package journal

import (
	"cmp"
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/owed"
)

// Finishes stands among the logs for the tasks themselves, which are owed what
// agents said when they were done with them.
const Finishes claim.Log = "claims"

// Backlog is what is owed to one log.
type Backlog struct {
	Log       claim.Log
	Depth     int       // how many entries
	InDoubt   int       // how many of them are in doubt
	Oldest    time.Time // when the oldest of them happened
	LastError string    // of the one sent last, among those that failed
}

// Backlog returns what is owed to Notion: the backlog of those of the live claims that
// are being finished, and those of the logs, see OutboxStats.
func (j *Journal) Backlog(ctx context.Context, live []claim.Hold) ([]Backlog, error) {
	logs, err := j.OutboxStats(ctx)
	if finishes := backlogOf(live); finishes.Depth > 0 {
		logs = append([]Backlog{finishes}, logs...)
	}
	return logs, err
}

// OutboxStats returns the backlogs of the logs that are owed something, in the
// order of the logs' names. Tasks that are made are none: who asked for them was told.
func (j *Journal) OutboxStats(ctx context.Context) ([]Backlog, error) {
	stats, err := collect(ctx, j.readers, scanBacklog, `
		SELECT kind, depth, in_doubt, oldest, coalesce((
		         SELECT last_error FROM owed
		          WHERE owed.kind = backlog.kind AND `+undelivered+` AND owed.last_error <> ''
		          ORDER BY sent_at DESC, seq DESC LIMIT 1), '')
		  FROM (SELECT kind, count(*) AS depth, count(*) FILTER (WHERE state = 'in_doubt') AS in_doubt, min(at) AS oldest
		          FROM owed WHERE `+undelivered+` GROUP BY kind) AS backlog
		 WHERE kind <> ? ORDER BY kind`, owed.Creation)
	return stats, j.failed(err, "reading the outbox")
}

func scanBacklog(row scanner) (Backlog, error) {
	var b Backlog
	var oldest int64
	err := row.Scan(&b.Log, &b.Depth, &b.InDoubt, &oldest, &b.LastError)
	b.Oldest = moment(oldest)
	return b, err
}

// backlogOf is what those of the claims that are being finished make up.
func backlogOf(claims []claim.Hold) Backlog {
	b := Backlog{Log: Finishes}
	for _, c := range claims {
		if c.State != claim.Finishing {
			continue
		}
		b.Depth++
		b.Oldest = earlier(b.Oldest, c.Finish.At)
		b.LastError = cmp.Or(c.Detail, b.LastError)
	}
	return b
}

// Owed is all that is owed to Notion.
type Owed struct {
	Depth     int       // how many things
	Finishes  int       // those of them that agents said when they were done
	Oldest    time.Time // when the oldest happened
	LastError string    // why one is still owed, if that is known
}

// Total adds backlogs up.
func Total(backlogs []Backlog) Owed {
	var all Owed
	for _, b := range backlogs {
		failure := b.LastError
		if b.Log == Finishes {
			all.Finishes = b.Depth
		} else if failure != "" {
			failure = sourceOf(b.Log) + ": " + failure
		}
		all.Depth += b.Depth
		all.Oldest = earlier(all.Oldest, b.Oldest)
		all.LastError = cmp.Or(failure, all.LastError)
	}
	return all
}

// sourceOf is what people call a log.
func sourceOf(log claim.Log) string {
	if log == claim.Comments {
		return string(log)
	}
	return string(log) + " log"
}

// earlier is the earlier of two moments, of which the first may not be known.
func earlier(known, t time.Time) time.Time {
	if known.IsZero() || t.Before(known) {
		return t
	}
	return known
}
