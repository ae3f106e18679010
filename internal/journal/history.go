package journal

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/report"
)

// seeIn notes that a fact's agent was active, if the fact shows it.
func seeIn(ctx context.Context, tx *tx, e claim.Fact) error {
	if !report.Alive(e) {
		return nil
	}
	return see(ctx, tx, e.Agent, e.At)
}

// see notes that an agent was active.
func see(ctx context.Context, tx *tx, agent string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO seen (agent, at) VALUES (?, ?)
		    ON CONFLICT (agent) DO UPDATE SET at = excluded.at WHERE excluded.at > seen.at`, agent, millis(at))
	return err
}

// Ended returns the claims that ended from one time on and before another, in that order.
func (j *Journal) Ended(ctx context.Context, from, to time.Time) ([]claim.Hold, error) {
	ended, err := collect(ctx, j.readers, scanClaim, "SELECT body FROM claims WHERE state = 'ended' AND ended >= ? AND ended < ? ORDER BY ended, id", millis(from), millis(to))
	return ended, j.failed(err, "reading which claims ended")
}

// Agents returns the agents that q asks for, the one seen last first.
func (j *Journal) Agents(ctx context.Context, q report.Asking) ([]report.Agent, error) {
	agents, err := collect(ctx, j.readers, func(row scanner) (a report.Agent, err error) {
		var at int64
		err = row.Scan(&a.Name, &at)
		a.Seen = moment(at)
		return a, err
	}, "SELECT agent, at FROM seen WHERE at >= ? ORDER BY at DESC"+upTo, millis(q.Since), atMost(q.Limit))
	for i := range agents {
		if err != nil {
			break
		}
		err = j.fill(ctx, &agents[i], q)
	}
	return agents, j.failed(err, "reading how agents do")
}

// fill fills in what an agent completed, and what it used.
func (j *Journal) fill(ctx context.Context, a *report.Agent, q report.Asking) error {
	err := j.readers.QueryRowContext(ctx, "SELECT count(*) FROM facts WHERE agent = ? AND at >= ? AND took IS NOT NULL", a.Name, millis(q.DoneSince)).Scan(&a.Done)
	if err != nil {
		return err
	}
	took, err := collect(ctx, j.readers, func(row scanner) (time.Duration, error) {
		var ms int64
		err := row.Scan(&ms)
		return time.Duration(ms) * time.Millisecond, err
	}, "SELECT took FROM facts WHERE agent = ? AND at >= ? AND took IS NOT NULL ORDER BY at DESC, seq DESC"+upTo, a.Name, millis(q.MedianSince), report.Newest)
	a.Median = report.Median(took)
	for since, sum := range map[time.Time]*claim.Usage{q.DoneSince: &a.UsedToday, q.Since: &a.Used} {
		var spent []report.Spent
		if err == nil {
			spent, err = j.Spent(ctx, report.Spending{Agent: a.Name, From: since})
			*sum = report.Total(spent)
		}
	}
	return err
}

// PruneSeen removes agents that were last seen before that time. It returns the number of rows
// removed, also when it fails on the way.
func (j *Journal) PruneSeen(ctx context.Context, before time.Time) (removed int, err error) {
	removed, err = j.prune(ctx, pruning{table: "seen", by: "agent", old: "at < ?1"}, before.UnixMilli())
	return removed, j.failed(err, "pruning who was seen")
}
