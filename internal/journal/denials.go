package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"dibs/internal/claim"
)

const (
	// maxDenied is how many refused agents are recorded by name against one claim. Further
	// ones are counted together.
	maxDenied = 100
	// countedFor is how long an agent's refusals for having too many tasks are counted in
	// one fact.
	countedFor = time.Hour
)

// recordDenial stores the fact of a refusal that was decided here, or counts it in the row of
// the last one like it. An agent that asks again and again leaves one row.
func recordDenial(ctx context.Context, tx *tx, e claim.Fact) error {
	seq, err := sameDenial(ctx, tx, &e)
	if err != nil {
		return err
	}
	if seq == 0 {
		return insertRecord(ctx, tx, e)
	}
	_, err = tx.ExecContext(ctx, "UPDATE facts SET count = count + 1 WHERE seq = ?", seq)
	if err != nil {
		return err
	}
	return seeIn(ctx, tx, e)
}

// sameDenial returns the row to count a denial in, or 0 if it needs a row of its own. Once
// the names are too many, it clears the agent of e.
func sameDenial(ctx context.Context, tx *tx, e *claim.Fact) (int64, error) {
	if e.Against == "" {
		return lastLimit(ctx, tx, e)
	}
	seq, err := denialOf(ctx, tx, e.Against, e.Agent)
	if err != nil || seq > 0 {
		return seq, err
	}
	var rows int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM facts WHERE against = ?", e.Against).Scan(&rows); err != nil || rows < maxDenied {
		return 0, err
	}
	e.Agent, e.Claim, e.Detail = "", "", "refusals of further agents, whose names are not kept: "+e.Detail
	return denialOf(ctx, tx, e.Against, "")
}

func denialOf(ctx context.Context, tx *tx, against claim.ID, agent string) (seq int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT seq FROM facts WHERE against = ? AND agent = ? LIMIT 1", against, agent).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// lastLimit returns the row of the agent's last fact if that is a recent refusal because of
// the limit, on any task; else 0.
func lastLimit(ctx context.Context, tx *tx, e *claim.Fact) (int64, error) {
	var seq int64
	var body []byte
	err := tx.QueryRowContext(ctx, "SELECT seq, body FROM facts WHERE logged = 1 AND agent = ? ORDER BY seq DESC LIMIT 1", e.Agent).Scan(&seq, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	last, err := fromBody[claim.Fact](body, "fact")
	if err != nil || last.Kind != claim.KindDenied || last.Code != e.Code || last.Remote || e.At.Sub(last.At) >= countedFor {
		return 0, err
	}
	return seq, nil
}

// sumUpDenials records one contested fact for all denials against a claim that has just ended.
func sumUpDenials(ctx context.Context, tx *tx, c claim.Hold) error {
	total := 0
	names, err := collect(ctx, tx, func(row scanner) (agent string, err error) {
		var count int
		err = row.Scan(&agent, &count)
		total += count
		return agent, err
	}, "SELECT agent, count FROM facts WHERE against = ? ORDER BY agent", c.ID)
	if err != nil || total == 0 {
		return err
	}
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
	return insertRecord(ctx, tx, claim.Contested(c, c.Ended, total, names))
}
