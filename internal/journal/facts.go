package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/news"
	"dibs/internal/journal/report"
	"dibs/internal/outbox"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// FactFilter selects facts of the record.
type FactFilter = claim.FactFilter

// Facts returns the facts that f selects, except by Told, in the order of storing unless f says
// otherwise. They became visible in that order too, so a reader that goes on after the last
// one it saw misses nothing.
func (j *Journal) Facts(ctx context.Context, f FactFilter) ([]claim.Fact, error) {
	query, args := "SELECT body, count, logged FROM facts WHERE logged = 1", []any{}
	if f.Seen {
		query = "SELECT body, count, logged FROM facts WHERE true"
	}
	if f.After != "" {
		id, err := ulid.ParseStrict(f.After)
		if err != nil {
			return nil, fmt.Errorf("reading what happened: %q is not the id of an event", f.After)
		}
		query += ` AND seq > coalesce(
			(SELECT seq FROM facts WHERE id = ?),
			(SELECT min(seq) - 1 FROM facts WHERE id > ?),
			?)`
		args = append(args, id.String(), id.String(), int64(math.MaxInt64))
	}
	if !f.Since.IsZero() {
		query, args = query+" AND at >= ? AND seq >= (SELECT min(seq) FROM facts WHERE at >= ?)", append(args, millis(f.Since), millis(f.Since))
	}
	if f.Task != "" {
		query, args = query+" AND task_id = ?", append(args, f.Task)
	}
	if f.Agent != "" {
		query, args = query+" AND agent = ?", append(args, f.Agent)
	}
	if f.Claim != "" {
		query, args = query+" AND claim_id = ?", append(args, f.Claim)
	}
	if f.Newest {
		query += " ORDER BY seq DESC"
	} else {
		query += " ORDER BY seq"
	}
	query, args = query+upTo, append(args, atMost(f.Limit))
	facts, err := collect(ctx, j.readers, scanFact, query, args...)
	return facts, j.failed(err, "reading what happened")
}

// Recorded reports whether a fact is on record.
func (j *Journal) Recorded(ctx context.Context, id string) (known bool, err error) {
	err = j.readers.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM facts WHERE id = ?)", id).Scan(&known)
	return known, j.failed(err, "reading what happened")
}

// Tries returns the tries at a task that still count, oldest first. See [claim.Ledger].
func (j *Journal) Tries(ctx context.Context, id task.ID) ([]claim.Try, error) {
	tries, err := collect(ctx, j.readers, func(row scanner) (claim.Try, error) {
		e, err := scanBody[claim.Fact](row, "fact")
		return e.Try(), err
	}, "SELECT body FROM facts WHERE task_id = ? AND tried IS NOT NULL ORDER BY seq", id)
	return tries, j.failed(err, "reading the tries at task %s", id)
}

// Earlier returns the newest ends of claims on a task, the newest first, as far as they are on record.
func (j *Journal) Earlier(ctx context.Context, id task.ID) ([]claim.Earlier, error) {
	earlier, err := collect(ctx, j.readers, func(row scanner) (claim.Earlier, error) {
		e, err := scanBody[claim.Fact](row, "fact")
		f, _ := e.Earlier()
		return f, err
	}, "SELECT body FROM facts WHERE task_id = ? AND earlier IS NOT NULL ORDER BY seq DESC"+upTo, id, claim.MostEarlier)
	return earlier, j.failed(err, "reading what became of earlier claims on task %s", id)
}

// Send stores a message, owed to the mesh log, and its triggers. It does nothing if the message
// is stored already.
func (j *Journal) Send(ctx context.Context, message claim.Fact, triggers ...inbox.Trigger) error {
	err := j.write(ctx, func(tx *tx) error {
		fresh, err := unrecorded(ctx, tx, []claim.Fact{message})
		if err != nil || len(fresh) == 0 {
			return err
		}
		if err := insertRecord(ctx, tx, fresh...); err != nil {
			return err
		}
		_, err = insertTriggers(ctx, tx, triggers...)
		return err
	})
	return j.failed(err, "sending a message")
}

// unrecorded returns the facts that are not on record yet.
func unrecorded(ctx context.Context, tx *tx, facts []claim.Fact) ([]claim.Fact, error) {
	var out []claim.Fact
	for _, f := range facts {
		var known bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM facts WHERE id = ?)", f.ID).Scan(&known); err != nil {
			return nil, err
		}
		if !known {
			out = append(out, f)
		}
	}
	return out, nil
}

// insertRecord stores facts on record with all that follows from them: the tries at their
// tasks, questions to people, when agents were seen, the log entries that Notion is owed, and notices.
func insertRecord(ctx context.Context, tx *tx, facts ...claim.Fact) error {
	for _, f := range facts {
		seq, err := insertFact(ctx, tx, f, true, news.Publishes(f))
		if err != nil {
			return err
		}
		if f.Tried == claim.TriedOver {
			if err := forgetTries(ctx, tx, f.Task); err != nil {
				return err
			}
		}
		if err := storeQuestion(ctx, tx, f); err != nil {
			return err
		}
		if err := noteActiveIn(ctx, tx, f); err != nil {
			return err
		}
		for _, kind := range tx.kindsOf(f) {
			state := outbox.Due
			if f.IsNamed() && tx.lost.isRecent() { // it may have been sent in the time that is lost
				state = outbox.Doubted
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO owed (fact, kind, at, state) VALUES (?, ?, ?, ?)", seq, kind, millis(f.At), state); err != nil {
				return err
			}
		}
	}
	return nil
}

// kindsOf returns the kinds of the intents that a fact becomes.
func (t *tx) kindsOf(f claim.Fact) []outbox.Kind {
	var kinds []outbox.Kind
	for _, log := range f.Logs() {
		kinds = append(kinds, outbox.Kind(log))
	}
	for kind, wants := range t.notices {
		if wants(f) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// insertNews publishes what became of a task.
func insertNews(ctx context.Context, tx *tx, at time.Time, changed []claim.Fact) error {
	for _, f := range changed {
		f.ID, f.At = claim.NewFactID(at), at
		if _, err := insertFact(ctx, tx, f, false, true); err != nil {
			return err
		}
	}
	return nil
}

// insertFact stores a fact: on record if logged is set, in the feed if published is set.
func insertFact(ctx context.Context, tx *tx, f claim.Fact, logged, published bool) (seq int64, err error) {
	body, err := json.Marshal(f)
	if err != nil {
		return 0, err
	}
	// A denial that Notion decided becomes a log entry of its own: it must not be summed up
	// again.
	tallied := f.Kind == claim.KindDenied && !f.Remote && f.Against != ""
	holder := f.Holder
	if news.ForAgents(f).Holder == "" {
		holder = "" // the feed does not show it to that name either
	}
	_, ends := f.Earlier()
	seq, err = tx.insert(ctx, `
		INSERT INTO facts (id, at, task_id, agent, holder, claim_id, logged, told, against, tried, earlier, took, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, CASE WHEN ? = 1 THEN (SELECT coalesce(max(told), 0) + 1 FROM facts WHERE told IS NOT NULL) END, ?, ?, ?, ?, ?)`,
		f.ID, millis(f.At), f.Task, f.Agent, holder, f.Claim, flag(logged), flag(published),
		sql.NullString{String: string(f.Against), Valid: tallied},
		sql.NullInt64{Int64: 1, Valid: f.Tried == claim.TriedAgain},
		sql.NullInt64{Int64: 1, Valid: ends && (logged || f.Returned)},
		sql.NullInt64{Int64: max(0, f.Finished.Sub(f.Started).Milliseconds()), Valid: logged && report.Completes(f)}, string(body))
	if err != nil {
		return 0, fmt.Errorf("fact %q: %w", f.ID, err)
	}
	tx.stored = append(tx.stored, Stored{Fact: f, Recorded: logged})
	return seq, nil
}

func scanFact(row scanner) (claim.Fact, error) {
	var body []byte
	var count, logged int
	if err := row.Scan(&body, &count, &logged); err != nil {
		return claim.Fact{}, err
	}
	e, err := fromBody[claim.Fact](body, "fact")
	e.Seen = logged == 0
	if count > 1 { // since it was stored
		e.Count = count
	}
	return e, err
}

// reopenedSince forgets the tries at a task if the changes say that somebody opened it again.
func reopenedSince(ctx context.Context, tx *tx, id task.ID, changed []claim.Fact) error {
	for _, f := range changed {
		if f.Kind == claim.KindUnblocked || f.Kind == claim.KindReopened {
			return forgetTries(ctx, tx, id)
		}
	}
	return nil
}

func forgetTries(ctx context.Context, tx *tx, id task.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE facts SET tried = NULL WHERE task_id = ? AND tried IS NOT NULL", id)
	return err
}
