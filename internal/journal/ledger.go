package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/reserve"
)

// Save stores a change, its facts in the order given, and publishes what agents should know of
// them. See [claim.Ledger].
//
// A claim whose reservation was taken over gets it back if the task is free again.
func (j *Journal) Save(ctx context.Context, ch claim.Change) error {
	err := j.write(ctx, func(tx *tx) error { return j.save(ctx, tx, ch) })
	return j.failed(err, "saving %s", saved(ch))
}

// Record stores facts that change no claim: it is Save of these alone.
func (j *Journal) Record(ctx context.Context, facts ...claim.Fact) error {
	return j.Save(ctx, claim.Change{Facts: facts})
}

// saved says what a change is about.
func saved(ch claim.Change) string {
	switch {
	case len(ch.Holds) > 0:
		return "claim " + string(ch.Holds[0].ID)
	case len(ch.Marks) > 0:
		return "mark " + string(ch.Marks[0].ID)
	case len(ch.Used) > 0:
		return "what claim " + string(ch.Used[0].ID) + " used"
	}
	return "what happened"
}

func (j *Journal) save(ctx context.Context, tx *tx, ch claim.Change) error {
	for _, h := range ch.Holds {
		if err := putClaim(ctx, tx, h); err != nil {
			return err
		}
	}
	for _, m := range ch.Marks {
		if err := putMark(ctx, tx, m); err != nil {
			return err
		}
	}
	if err := saveUsed(ctx, tx, ch); err != nil {
		return err
	}
	facts := ch.Facts
	if len(ch.Holds)+len(ch.Marks) == 0 {
		var err error
		if facts, err = unrecorded(ctx, tx, facts); err != nil {
			return err
		}
	}
	if err := j.record(ctx, tx, facts); err != nil {
		return err
	}
	for _, h := range ch.Holds {
		if err := saveReservation(ctx, tx, h); err != nil {
			return err
		}
		if h.State == claim.Ended {
			if err := j.heed(ctx, tx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveReservation has the reservation of a task follow the claim h on it, and its agent be seen.
func saveReservation(ctx context.Context, tx *tx, h claim.Hold) error {
	if h.State == claim.Held && !h.Heartbeat.IsZero() {
		if err := noteActive(ctx, tx, h.Agent, h.Heartbeat); err != nil {
			return err
		}
	}
	if h.State == claim.Ended {
		if _, err := tx.ExecContext(ctx, "DELETE FROM reservations WHERE claim_id = ?", h.ID); err != nil {
			return err
		}
		return sumUpDenials(ctx, tx, h)
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO reservations (task_id, claim_id, agent, until)
		VALUES (?, ?, ?, ?)
		    ON CONFLICT (task_id) DO UPDATE SET until = excluded.until
		 WHERE reservations.claim_id = excluded.claim_id AND reservations.until <> excluded.until`,
		h.Task.ID, h.ID, h.Agent, reservedUntil(h))
	return err
}

// Reserve reserves the task of c for c, unless another claim has it or the agent has reached
// limit with other tasks. See [claim.Ledger].
//
// It refuses whatever the task during a pause, or once a limit of the day is used up.
//
// c is stored in state reserved. A refusal is recorded as a denial, or counted with the agent's
// earlier one. If both reasons apply, the refusal names the claim that has the task.
func (j *Journal) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	c.State = claim.Reserved
	var refusal *claim.Refusal
	var fence int64
	err := j.write(ctx, func(tx *tx) error {
		refusal, fence = nil, 0 // of a first run, see writer
		if barred, err := j.barred(ctx, tx, c, now); err != nil {
			return err
		} else if barred != nil {
			refusal = &claim.Refusal{Barred: barred}
			return recordDenial(ctx, tx, refusal.Fact(c, now, limit))
		}
		won, err := affect(ctx, tx, `
			INSERT INTO reservations (task_id, claim_id, agent, until)
			SELECT ?1, ?2, ?3, ?4
			 WHERE ?5 <= 0
			    OR ?5 > (SELECT count(*) FROM reservations WHERE agent = ?3 AND task_id <> ?1)
			    ON CONFLICT (task_id) DO UPDATE
			   SET claim_id = excluded.claim_id, agent = excluded.agent, until = excluded.until
			 WHERE reservations.until <= ?6`,
			c.Task.ID, c.ID, c.Agent, reservedUntil(c), limit, now.UnixMilli())
		if err != nil {
			return err
		}
		if won > 0 {
			if fence, err = nextFence(ctx, tx, now); err != nil {
				return err
			}
			c.Fence = fence
			if _, err := writeClaim(ctx, tx, c, ""); err != nil {
				return err
			}
			return j.admit(ctx, tx, c, now)
		}
		refusal, err = whyRefused(ctx, tx, c, now)
		if err != nil {
			return err
		}
		return recordDenial(ctx, tx, refusal.Fact(c, now, limit))
	})
	if err != nil {
		return 0, nil, j.failed(err, "reserving task %s for %s", c.Task.ID, c.Agent)
	}
	return fence, refusal, nil
}

// nextFence returns a number larger than all before it. It starts from the current millisecond,
// so that a journal that was lost or restored goes on above the numbers it once gave out.
func nextFence(ctx context.Context, tx *tx, now time.Time) (fence int64, err error) {
	err = tx.QueryRowContext(ctx, `
		UPDATE fence SET last = CASE WHEN last < ?1 THEN ?1 ELSE last + 1 END
		RETURNING last`, now.UnixMilli()).Scan(&fence)
	return fence, err
}

// whyRefused returns why the transaction refused c. It runs in the same transaction.
func whyRefused(ctx context.Context, tx *tx, c claim.Hold, now time.Time) (*claim.Refusal, error) {
	holder, err := scanClaim(tx.QueryRowContext(ctx, `
		SELECT claims.body FROM reservations JOIN claims ON claims.id = reservations.claim_id
		 WHERE reservations.task_id = ? AND reservations.until > ?`, c.Task.ID, now.UnixMilli()))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &claim.Refusal{Limit: true}, nil
	case err != nil:
		return nil, err
	}
	return &claim.Refusal{Holder: &holder}, nil
}

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
	return noteActiveIn(ctx, tx, e)
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

var _ reserve.Storage = (*Journal)(nil)

// Reservations returns the agents' reservations, by id: the oldest first.
func (j *Journal) Reservations(ctx context.Context) ([]reserve.Reservation, error) {
	_, reserved, err := list[reserve.Reservation](ctx, j.readers, kindReservation)
	return reserved, j.failed(err, "reading the reservations")
}

// StoreReservation stores a reservation, in place of any with the same id, and its facts.
func (j *Journal) StoreReservation(ctx context.Context, r reserve.Reservation, news ...claim.Fact) error {
	err := j.write(ctx, func(tx *tx) error {
		if err := kindReservation.put(ctx, tx, r.ID, "", r); err != nil {
			return err
		}
		return insertRecord(ctx, tx, news...)
	})
	return j.failed(err, "storing a reservation of %s", r.Agent)
}

// EndReservations deletes reservations, and stores the facts of that.
func (j *Journal) EndReservations(ctx context.Context, ids []string, news ...claim.Fact) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if err := kindReservation.drop(ctx, tx, id); err != nil {
				return err
			}
		}
		return insertRecord(ctx, tx, news...)
	})
	return j.failed(err, "ending %d reservations", len(ids))
}
