package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"dibs/internal/claim"
	"dibs/internal/history"
)

// count adds a fact to the history that was just stored, or counted in the row of another.
func count(ctx context.Context, tx *tx, e claim.Fact) error {
	if history.Alive(e) {
		if err := see(ctx, tx, e.Agent, e.At); err != nil {
			return err
		}
	}
	name := history.Of(e)
	switch name {
	case "":
		return nil
	case history.Granted:
		since, err := readySince(ctx, tx, e)
		if err != nil {
			return err
		}
		return addUp(ctx, tx, e.At, history.Counts{name: 1, history.Waited(e.At.Sub(since)): 1})
	case history.Completed:
		return addUp(ctx, tx, e.At, history.Counts{name: 1, history.Worked(e.Finished.Sub(e.Started)): 1})
	}
	return addUp(ctx, tx, e.At, history.Counts{name: max(1, e.Count)})
}

// readySince returns since when the task of a grant was ready, as published. If that is not
// known (the task was assigned, or its claim was stale), it returns when the agent asked for
// it: the time in the claim's id.
func readySince(ctx context.Context, tx *tx, e claim.Fact) (time.Time, error) {
	var since int64
	err := tx.QueryRowContext(ctx, "SELECT since FROM told WHERE task_id = ?", e.Task).Scan(&since)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, err
	}
	if since > 0 {
		return moment(since), nil
	}
	if asked, ok := e.Claim.Minted(); ok {
		return asked, nil
	}
	return e.At, nil
}

// addUp adds counts of one moment to the history.
func addUp(ctx context.Context, tx *tx, at time.Time, counts history.Counts) error {
	for _, span := range []time.Duration{history.Fine, history.Coarse} {
		if err := addTo(ctx, tx, span, millis(history.Begin(at, span)), counts); err != nil {
			return fmt.Errorf("counting: %w", err)
		}
	}
	return nil
}

// addTo is addUp for one span.
func addTo(ctx context.Context, tx *tx, span time.Duration, start int64, counts history.Counts) error {
	sums := maps.Clone(counts)
	var body []byte
	err := tx.QueryRowContext(ctx, "SELECT counts FROM history WHERE span = ? AND start = ?", span.Milliseconds(), start).Scan(&body)
	if err == nil {
		err = sums.Add(body, make(history.Names))
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if body, err = json.Marshal(sums); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO history (span, start, counts) VALUES (?, ?, ?)
		    ON CONFLICT (span, start) DO UPDATE SET counts = excluded.counts`, span.Milliseconds(), start, string(body))
	return err
}

// see notes that an agent was active.
func see(ctx context.Context, tx *tx, agent string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO seen (agent, at) VALUES (?, ?)
		    ON CONFLICT (agent) DO UPDATE SET at = excluded.at WHERE excluded.at > seen.at`, agent, millis(at))
	return err
}

// Count adds numbers of about that time to the history: what is no fact, such as requests.
func (j *Journal) Count(ctx context.Context, at time.Time, counts history.Counts) error {
	err := j.write(ctx, func(tx *tx) error { return addUp(ctx, tx, at, counts) })
	return j.failed(err, "counting for the history")
}

// Ended returns the claims that ended from one time on and before another, in that order.
func (j *Journal) Ended(ctx context.Context, from, to time.Time) ([]claim.Hold, error) {
	ended, err := collect(ctx, j.readers, scanClaim, "SELECT body FROM claims WHERE state = 'ended' AND ended >= ? AND ended < ? ORDER BY ended, id", millis(from), millis(to))
	return ended, j.failed(err, "reading which claims ended")
}

// History returns what happened in each step of a window.
func (j *Journal) History(ctx context.Context, w history.Window) ([]history.Counts, error) {
	steps := make([]history.Counts, w.Points)
	for i := range steps {
		steps[i] = make(history.Counts)
	}
	names := make(history.Names)
	_, err := collect(ctx, j.readers, func(row scanner) (struct{}, error) {
		var start int64
		var counts []byte
		if err := row.Scan(&start, &counts); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, steps[w.Index(moment(start))].Add(counts, names)
	}, "SELECT start, counts FROM history WHERE span = ? AND start >= ? AND start < ?",
		w.Span().Milliseconds(), millis(w.From), millis(w.To()))
	return steps, j.failed(err, "reading the history")
}

// Agents returns the agents that q asks for, the one seen last first.
func (j *Journal) Agents(ctx context.Context, q history.Asking) ([]history.Agent, error) {
	agents, err := collect(ctx, j.readers, func(row scanner) (a history.Agent, err error) {
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
func (j *Journal) fill(ctx context.Context, a *history.Agent, q history.Asking) error {
	err := j.readers.QueryRowContext(ctx, "SELECT count(*) FROM facts WHERE agent = ? AND at >= ? AND took IS NOT NULL", a.Name, millis(q.DoneSince)).Scan(&a.Done)
	if err != nil {
		return err
	}
	took, err := collect(ctx, j.readers, func(row scanner) (time.Duration, error) {
		var ms int64
		err := row.Scan(&ms)
		return time.Duration(ms) * time.Millisecond, err
	}, "SELECT took FROM facts WHERE agent = ? AND at >= ? AND took IS NOT NULL ORDER BY at DESC, seq DESC"+upTo, a.Name, millis(q.MedianSince), history.Newest)
	a.Median = history.Median(took)
	for since, sum := range map[time.Time]*claim.Usage{q.DoneSince: &a.UsedToday, q.Since: &a.Used} {
		var spent []history.Spent
		if err == nil {
			spent, err = j.Spent(ctx, history.Spending{Agent: a.Name, From: since})
			*sum = history.Total(spent)
		}
	}
	return err
}

// PruneHistory removes numbers too old to be asked for, and agents not seen since before. It
// returns the number of rows removed, also when it fails on the way.
func (j *Journal) PruneHistory(ctx context.Context, now, before time.Time) (removed int, err error) {
	err = j.writeAlone(ctx, func(tx *tx) error {
		removed = 0
		for span, keep := range map[time.Duration]time.Duration{history.Fine: history.KeepFine, history.Coarse: history.KeepCoarse} {
			n, err := affect(ctx, tx, "DELETE FROM history WHERE span = ? AND start < ?", span.Milliseconds(), now.Add(-keep).UnixMilli())
			if err != nil {
				return err
			}
			removed += int(n)
		}
		return nil
	})
	if err == nil {
		var n int
		n, err = j.prune(ctx, pruning{table: "seen", by: "agent", old: "at < ?1"}, before.UnixMilli())
		removed += n
	}
	return removed, j.failed(err, "pruning the history")
}
