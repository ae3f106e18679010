package journal

import (
	"cmp"
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// Finishes stands among the logs for the tasks' own pages, which are owed what agents said
// when they finished.
const Finishes claim.Log = "claims"

// Backlog is what is owed to one log.
type Backlog struct {
	Log       claim.Log
	Depth     int       // the number of entries
	InDoubt   int       // the number of them in doubt
	Oldest    time.Time // when the oldest of them happened
	LastError string    // of the most recent failed delivery
}

// Backlog returns what is owed to Notion: the finishes among the live claims first, then the
// backlogs of the logs, see OutboxStats.
func (j *Journal) Backlog(ctx context.Context, live []claim.Hold) ([]Backlog, error) {
	logs, err := j.OutboxStats(ctx)
	if finishes := backlogOf(live); finishes.Depth > 0 {
		logs = append([]Backlog{finishes}, logs...)
	}
	return logs, err
}

// OutboxStats returns the backlogs of the logs that are owed something, by the logs' names.
// It leaves out tasks to make, whose callers already got an answer, and notices, which Notion does
// not get.
func (j *Journal) OutboxStats(ctx context.Context) ([]Backlog, error) {
	stats, err := collect(ctx, j.readers, scanBacklog, `
		SELECT kind, depth, in_doubt, oldest, coalesce((
		         SELECT last_error FROM owed
		          WHERE owed.kind = backlog.kind AND `+undelivered+` AND owed.last_error <> ''
		          ORDER BY sent_at DESC, seq DESC LIMIT 1), '')
		  FROM (SELECT kind, count(*) AS depth, count(*) FILTER (WHERE state = 'in_doubt') AS in_doubt, min(at) AS oldest
		          FROM owed WHERE `+undelivered+` GROUP BY kind) AS backlog
		 WHERE kind <> ? AND NOT (`+ofNotices+`) ORDER BY kind`, outbox.Creation)
	return stats, j.failed(err, "reading the outbox")
}

func scanBacklog(row scanner) (Backlog, error) {
	var b Backlog
	var oldest int64
	err := row.Scan(&b.Log, &b.Depth, &b.InDoubt, &oldest, &b.LastError)
	b.Oldest = moment(oldest)
	return b, err
}

// backlogOf returns the backlog of the claims that are finishing.
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

// Owed sums up all that is owed to Notion.
type Owed struct {
	Depth     int       // the number of things owed
	Finishes  int       // how many of them are finishes of claims
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

// sourceOf returns the name of a log for people.
func sourceOf(log claim.Log) string {
	if log == claim.Comments {
		return string(log)
	}
	return string(log) + " log"
}

// earlier returns the earlier of two moments; known is zero if it is not known.
func earlier(known, t time.Time) time.Time {
	if known.IsZero() || t.Before(known) {
		return t
	}
	return known
}
