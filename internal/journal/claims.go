package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// ErrEnded is returned by Save for a claim or a mark that has ended: its record is final.
var ErrEnded = errors.New("it has ended already")

// Save stores a change, its facts in the order given, and publishes what agents should know of
// them. See [claim.Ledger].
//
// A claim whose reservation was taken over gets it back if the task is free again.
func (j *Journal) Save(ctx context.Context, ch claim.Change) error {
	err := j.write(ctx, func(tx *tx) error { return j.save(ctx, tx, ch) })
	return j.failed(err, "saving %s", saved(ch))
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
		if err := see(ctx, tx, h.Agent, h.Heartbeat); err != nil {
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
		h.Task.ID, h.ID, h.Agent, until(h))
	return err
}

// putClaim inserts or updates the row of c. It fails with ErrEnded if the row has ended.
func putClaim(ctx context.Context, tx *tx, c claim.Hold) error {
	if c.State == claim.Ended && c.Ended.IsZero() {
		return errors.New("it ends without a time")
	}
	n, err := writeClaim(ctx, tx, c, `
		    ON CONFLICT (id) DO UPDATE
		   SET state = excluded.state, started = excluded.started, ended = excluded.ended, loss = COALESCE(claims.loss, excluded.loss), body = excluded.body
		 WHERE claims.state <> 'ended' AND claims.task_id = excluded.task_id AND claims.agent = excluded.agent`)
	if err != nil || n > 0 {
		return err
	}
	known, err := scanClaim(tx.QueryRowContext(ctx, "SELECT body FROM claims WHERE id = ?", c.ID))
	switch {
	case err != nil:
		return err
	case known.State == claim.Ended:
		return ErrEnded
	default:
		return fmt.Errorf("it is %s's on task %s, and cannot become %s's on task %s", known.Agent, known.Task.ID, c.Agent, c.Task.ID)
	}
}

// writeClaim inserts the row of c, or does what onConflict says. It returns the number of
// rows changed.
func writeClaim(ctx context.Context, tx *tx, c claim.Hold, onConflict string) (int64, error) {
	body, err := json.Marshal(claimBody{Hold: c, Task: task.BodyOf(c.Task)})
	if err != nil {
		return 0, err
	}
	return affect(ctx, tx, `
		INSERT INTO claims (id, task_id, agent, state, started, ended, loss, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`+onConflict,
		c.ID, c.Task.ID, c.Agent, c.State, millis(grantedAt(c)), millis(c.Ended), lossOf(c), string(body))
}

// grantedAt returns when c was granted to its agent to work on; zero if it was not.
func grantedAt(c claim.Hold) time.Time {
	if c.Brief {
		return time.Time{}
	}
	return c.Started
}

// never is the `until` of a reservation that cannot be taken over.
const never = math.MaxInt64

// until returns when the reservation of c may be taken over: once c goes stale, if it is
// held, else never. It is rounded up, so that it is never early.
func until(c claim.Hold) int64 {
	if c.State != claim.Held || c.StaleAt.IsZero() {
		return never
	}
	return c.StaleAt.Add(time.Millisecond - time.Nanosecond).UnixMilli()
}

// Hold returns the claim with that id, in any state, or [claim.ErrUnknownClaim].
func (j *Journal) Hold(ctx context.Context, id claim.ID) (claim.Hold, error) {
	c, err := scanClaim(j.readers.QueryRowContext(ctx, "SELECT body FROM claims WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		err = claim.ErrUnknownClaim
	}
	return c, j.failed(err, "reading claim %s", id)
}

// unended is the condition for live claims. The partial index has the same condition, so
// every statement must spell it this way to use the index.
const unended = "state <> 'ended'"

// Live returns the claims and the marks that have not ended, oldest first (the order of their ids).
func (j *Journal) Live(ctx context.Context) ([]claim.Hold, []claim.Mark, error) {
	holds, err := collect(ctx, j.readers, scanClaim, "SELECT body FROM claims WHERE "+unended+" ORDER BY id")
	if err != nil {
		return nil, nil, j.failed(err, "reading the live claims")
	}
	marks, err := collect(ctx, j.readers, scanMark, "SELECT body FROM marks WHERE ended = 0 ORDER BY id")
	return holds, marks, j.failed(err, "reading the live marks")
}

// TaskClaims returns the claims on a task, ended ones too, newest first.
func (j *Journal) TaskClaims(ctx context.Context, id task.ID) ([]claim.Hold, error) {
	claims, err := collect(ctx, j.readers, scanClaim, "SELECT body FROM claims WHERE task_id = ? ORDER BY id DESC", id)
	return claims, j.failed(err, "reading claims")
}

// claimBody is the JSON in a claim's row: the claim, with all fields of its task.
type claimBody struct {
	claim.Hold
	Task task.Body `json:"task"` // instead of Hold.Task
}

// renameHolds puts the agents of live claims into the form in which names are compared. Older
// versions stored them as they were given.
func renameHolds(ctx context.Context, tx *tx) error {
	holds, err := collect(ctx, tx, scanClaim, "SELECT body FROM claims WHERE "+unended)
	if err != nil {
		return err
	}
	for _, c := range holds {
		name := task.Name(c.Agent)
		if name == c.Agent {
			continue
		}
		c.Agent = name
		_, err := affect(ctx, tx, "UPDATE claims SET agent = ? WHERE id = ?", name, c.ID)
		if err == nil {
			_, err = affect(ctx, tx, "UPDATE reservations SET agent = ? WHERE claim_id = ?", name, c.ID)
		}
		if err == nil {
			err = putClaim(ctx, tx, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func scanClaim(row scanner) (claim.Hold, error) {
	b, err := scanBody[claimBody](row, "claim")
	return b.whole(), err
}

func (b claimBody) whole() claim.Hold {
	b.Hold.Task = b.Task.Whole()
	return b.Hold
}
