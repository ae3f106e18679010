package journal

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"dibs/internal/claim"
	"dibs/internal/journal/report"
	"dibs/internal/task"
)

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

// noteActive notes that an agent was active.
func noteActive(ctx context.Context, tx *tx, agent string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO seen (agent, at) VALUES (?, ?)
		    ON CONFLICT (agent) DO UPDATE SET at = excluded.at WHERE excluded.at > seen.at`, agent, millis(at))
	return err
}

// noteActiveIn notes that a fact's agent was active, if the fact shows it.
func noteActiveIn(ctx context.Context, tx *tx, e claim.Fact) error {
	if !report.Alive(e) {
		return nil
	}
	return noteActive(ctx, tx, e.Agent, e.At)
}

// Ended returns the claims that ended from one time on and before another, in that order.
func (j *Journal) Ended(ctx context.Context, from, to time.Time) ([]claim.Hold, error) {
	ended, err := collect(ctx, j.readers, scanClaim, "SELECT body FROM claims WHERE state = 'ended' AND ended >= ? AND ended < ? ORDER BY ended, id", millis(from), millis(to))
	return ended, j.failed(err, "reading which claims ended")
}

// Spent returns what was used, by agent, in the order of their names. It knows of what was reported
// since Prune's limit, and of all claims that are kept.
func (j *Journal) Spent(ctx context.Context, q report.Spending) ([]report.Spent, error) {
	found, err := spent(ctx, j.readers, q)
	return found, j.failed(err, "reading what was used")
}

func spent(ctx context.Context, from querier, q report.Spending) ([]report.Spent, error) {
	// Grouped by bare columns, SQLite would walk the whole index of agents or of tasks.
	group, of := "coalesce(agent, '')", "''"
	if q.ByTask {
		of = "coalesce(task_id, '')"
		group += ", " + of
	}
	query, args := "SELECT coalesce(agent, ''), "+of+", "+sumsUsed+" FROM used WHERE true", []any{}
	add := func(condition string, values ...any) {
		query, args = query+" AND "+condition, append(args, values...)
	}
	switch prefix, pattern := strings.CutSuffix(q.Agent, "*"); {
	case pattern: // as task.MatchAgent does
		n := utf8.RuneCountInString(prefix)
		add("substr(agent, 1, ?) = ? AND length(agent) > ?", n, prefix, n)
	case q.Agent != "":
		add("agent = ?", q.Agent)
	}
	if q.Task != "" {
		add("task_id = ?", q.Task)
	}
	if !q.From.IsZero() {
		add("start >= ?", millis(q.From.Round(report.Quarter)))
	}
	if !q.To.IsZero() {
		add("start < ?", millis(q.To.Round(report.Quarter)))
	}
	return collect(ctx, from, scanUsed, query+" GROUP BY "+group+" ORDER BY "+group, args...)
}

// sumsUsed are the sums that scanUsed reads. PostgreSQL would make decimals of them.
const sumsUsed = "CAST(coalesce(sum(tokens), 0) AS BIGINT), CAST(coalesce(sum(micros), 0) AS BIGINT)"

func scanUsed(row scanner) (s report.Spent, err error) {
	err = row.Scan(&s.Agent, &s.Task, &s.Tokens, &s.Micros)
	return s, err
}

// saveUsed stores what the claims in ch used.
func saveUsed(ctx context.Context, tx *tx, ch claim.Change) error {
	for _, h := range ch.Used {
		body, err := json.Marshal(claimBody{Hold: h, Task: task.BodyOf(h.Task)})
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE claims SET body = ? WHERE id = ? AND state = 'ended'", string(body), h.ID); err != nil {
			return err
		}
	}
	for _, holds := range [][]claim.Hold{ch.Holds, ch.Used} {
		for _, h := range holds {
			if err := addUsed(ctx, tx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// addUsed adds to the sums what h used beyond what they have of it already.
func addUsed(ctx context.Context, tx *tx, h claim.Hold) error {
	if h.Used.None() {
		return nil
	}
	known, err := scanUsed(tx.QueryRowContext(ctx, "SELECT '', '', "+sumsUsed+" FROM used WHERE claim_id = ?", h.ID))
	if err != nil {
		return err
	}
	tokens, micros := max(0, h.Used.Tokens-known.Tokens), max(0, h.Used.Micros-known.Micros)
	if tokens == 0 && micros == 0 {
		return nil
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO used (claim_id, start, task_id, agent, tokens, micros)
		VALUES (?, ?, ?, ?, ?, ?)
		    ON CONFLICT (claim_id, start) DO UPDATE
		   SET tokens = used.tokens + excluded.tokens, micros = used.micros + excluded.micros`,
		h.ID, millis(report.Begin(h.Used.At)), h.Task.ID, h.Agent, tokens, micros)
	return err
}
