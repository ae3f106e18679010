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
	"dibs/internal/claim/keepers"
	"dibs/internal/task"
)

// ErrEnded is returned by Save for a claim or a mark that has ended: its record is final.
var ErrEnded = errors.New("it has ended already")

// TaskClaims returns the claims on a task, ended ones too, newest first.
func (j *Journal) TaskClaims(ctx context.Context, id task.ID) ([]claim.Hold, error) {
	claims, err := collect(ctx, j.readers, scanClaim, "SELECT body FROM claims WHERE task_id = ? ORDER BY id DESC", id)
	return claims, j.failed(err, "reading claims")
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

// claimBody is the JSON in a claim's row: the claim, with all fields of its task.
type claimBody struct {
	claim.Hold
	Task task.Body `json:"task"` // instead of Hold.Task
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

// lossOf returns the value of a claim's column loss, nil if it is no loss. An agent that had
// finished, and whose finish only did not reach Notion, lost nothing that it relies on.
func lossOf(c claim.Hold) any {
	if c.Taken() && c.Said() == nil {
		return "untold"
	}
	return nil
}

// never is the `until` of a reservation that cannot be taken over.
const never = math.MaxInt64

// reservedUntil returns when the reservation of c may be taken over: once c goes stale, if it is
// held, else never. It is rounded up, so that it is never early.
func reservedUntil(c claim.Hold) int64 {
	if c.State != claim.Held || c.StaleAt.IsZero() {
		return never
	}
	return c.StaleAt.Add(time.Millisecond - time.Nanosecond).UnixMilli()
}

func scanClaim(row scanner) (claim.Hold, error) {
	b, err := scanBody[claimBody](row, "claim")
	return b.whole(), err
}

func (b claimBody) whole() claim.Hold {
	b.Hold.Task = b.Task.Whole()
	return b.Hold
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

// Mark returns the mark of that id in whatever state it is, or [claim.ErrUnknownClaim].
func (j *Journal) Mark(ctx context.Context, id claim.ID) (claim.Mark, error) {
	m, err := scanMark(j.readers.QueryRowContext(ctx, "SELECT body FROM marks WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		err = claim.ErrUnknownClaim
	}
	return m, j.failed(err, "reading mark %s", id)
}

// putMark inserts or updates the row of m, unless it says that m has ended.
func putMark(ctx context.Context, tx *tx, m claim.Mark) error {
	if m.State == claim.Gone && m.Ended.IsZero() {
		return errors.New("it is to end, and does not say when")
	}
	body, err := json.Marshal(markBody{Mark: m, Task: task.BodyOf(m.Task)})
	if err != nil {
		return err
	}
	n, err := affect(ctx, tx, `
		INSERT INTO marks (id, task_id, agent, ended, body)
		VALUES (?, ?, ?, ?, ?)
		    ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, ended = excluded.ended, body = excluded.body
		 WHERE marks.ended = 0 AND marks.task_id = excluded.task_id`,
		m.ID, m.Task.ID, m.Agent, millis(m.Ended), string(body))
	if err == nil && n == 0 {
		err = ErrEnded
	}
	return err
}

// markBody is a mark as its row's body holds it: its task with all its fields.
type markBody struct {
	claim.Mark
	Task task.Body `json:"task"` // instead of Mark.Task
}

func scanMark(row scanner) (claim.Mark, error) {
	b, err := scanBody[markBody](row, "mark")
	b.Mark.Task = b.Task.Whole()
	return b.Mark, err
}

// maxLosses bounds the losses of an agent that are read: far more than it can have missed.
const maxLosses = 100

// Losses returns the newest claims taken from the agent, newest first.
func (j *Journal) Losses(ctx context.Context, agent string) ([]claim.Loss, error) {
	losses, err := collect(ctx, j.readers, scanLoss, `
		SELECT body, loss = 'told', NOT EXISTS (
		           SELECT 1 FROM claims AS later
		            WHERE later.agent = claims.agent AND later.id > claims.id AND later.started > 0)
		  FROM claims
		 WHERE agent = ? AND loss IS NOT NULL
		 ORDER BY id DESC`+upTo, agent, maxLosses)
	return losses, j.failed(err, "reading the losses of %s", agent)
}

// LossNotified records that the agent was told that its claim was taken. It does nothing for a
// claim that was not taken.
func (j *Journal) LossNotified(ctx context.Context, id claim.ID) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE claims SET loss = 'told' WHERE id = ? AND loss = 'untold'", id)
		return err
	})
	return j.failed(err, "noting that the loss of claim %s was told", id)
}

func scanLoss(row scanner) (claim.Loss, error) {
	var body []byte
	var l claim.Loss
	if err := row.Scan(&body, &l.Told, &l.Last); err != nil {
		return l, err
	}
	b, err := fromBody[claimBody](body, "claim")
	l.Hold = b.whole()
	return l, err
}

// Keepers returns who keeps which claim alive.
func (j *Journal) Keepers(ctx context.Context) (map[claim.ID][]keepers.Keeper, error) {
	ids, found, err := list[[]keepers.Keeper](ctx, j.readers, kindKeepers)
	out := make(map[claim.ID][]keepers.Keeper)
	for i := range found {
		out[claim.ID(ids[i])] = found[i]
	}
	return out, j.failed(err, "reading who keeps claims alive")
}

// SetKeepers stores who keeps a claim alive, in place of who did; nobody, if there are none.
func (j *Journal) SetKeepers(ctx context.Context, id claim.ID, by []keepers.Keeper) error {
	err := j.write(ctx, func(tx *tx) error {
		if len(by) == 0 {
			return kindKeepers.drop(ctx, tx, string(id))
		}
		return kindKeepers.put(ctx, tx, string(id), "", by)
	})
	return j.failed(err, "storing who keeps claim %s alive", id)
}
