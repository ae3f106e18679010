package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

var _ outbox.Ledger = (*Journal)(nil)

// Conditions on rows of owed. The partial indices have the first one, so every statement must
// spell it this way to use them.
const (
	undelivered = "owed.state <> 'delivered'"
	waiting     = undelivered + " AND owed.state <> 'sending'"
)

// Owe adds an intent without a fact. It is due, and bound to its request if that has a key. After a
// loss it is in doubt: it may have been sent for the same request in the time that is lost. If there
// is one with its id, of the same request made before, Owe returns that.
func (j *Journal) Owe(ctx context.Context, in outbox.Intent) (there outbox.Intent, _ error) {
	in.State = outbox.Due
	if from, _ := j.lost.Ago(); in.Key != "" && j.lost.isRecent() {
		in.State, in.At = outbox.Doubted, in.At.Add(-from)
	}
	err := j.write(ctx, func(tx *tx) (err error) {
		_, err = tx.ExecContext(ctx, "INSERT INTO owed (kind, id, at, state) VALUES (?, ?, ?, ?) ON CONFLICT (id) WHERE id IS NOT NULL DO NOTHING",
			in.Kind, in.ID, millis(in.At), in.State)
		if err == nil {
			there, err = scanIntent(tx.QueryRowContext(ctx, intents+"WHERE owed.id = ?", in.ID))
			there.UID, there.Key = in.UID, in.Key
		}
		if err != nil || in.Key == "" {
			return err
		}
		return changeRequest(ctx, tx, in.UID, in.Key, "made = ?", in.ID)
	})
	return there, j.failedOwed(err, in)
}

// intents is a SELECT of intents, to be followed by a condition.
const intents = `
	SELECT owed.seq, owed.kind, coalesce(owed.id, facts.id), owed.at, owed.state, tries, sent_at, ref, facts.body
	  FROM owed LEFT JOIN facts ON facts.seq = owed.fact `

func scanIntent(row scanner) (in outbox.Intent, err error) {
	var at, sent int64
	var body []byte
	if err := row.Scan(&in.Seq, &in.Kind, &in.ID, &at, &in.State, &in.Tries, &sent, &in.Ref, &body); err != nil {
		return outbox.Intent{}, err
	}
	in.At, in.Sent = moment(at), moment(sent)
	if body != nil {
		in.Fact, err = fromBody[claim.Fact](body, "fact")
	}
	return in, err
}

// OwedFor returns the intent bound to the request of that user and key; ok is false if there is
// none.
func (j *Journal) OwedFor(ctx context.Context, uid int, key string) (in outbox.Intent, ok bool, err error) {
	in, err = scanIntent(j.readers.QueryRowContext(ctx, intents+"WHERE owed.id = (SELECT made FROM requests WHERE uid = ? AND key = ?)", uid, key))
	if errors.Is(err, sql.ErrNoRows) {
		return outbox.Intent{}, false, nil
	}
	in.UID, in.Key = uid, key
	return in, err == nil, j.failed(err, "reading what was made for request %q", key)
}

// NextOwed returns the intents of a kind that are due or in doubt and may be tried now, oldest
// first; at most limit of them, 0 for no limit.
func (j *Journal) NextOwed(ctx context.Context, kind outbox.Kind, now time.Time, limit int) ([]outbox.Intent, error) {
	// "not_before + 0" makes SQLite use the index owed_next, which has the wanted order, and
	// stop at the limit.
	list, err := collect(ctx, j.readers, scanIntent, intents+`
		 WHERE `+waiting+` AND owed.kind = ? AND not_before + 0 <= ?
		 ORDER BY owed.seq`+upTo, kind, now.UnixMilli(), atMost(limit))
	return list, j.failed(err, "reading the outbox")
}

// NextOwedAt returns when the first intent of a kind that is due or in doubt may be tried, and
// false if there is none. The time is zero or past if that is now.
func (j *Journal) NextOwedAt(ctx context.Context, kind outbox.Kind) (time.Time, bool, error) {
	var at sql.NullInt64
	err := j.readers.QueryRowContext(ctx, "SELECT min(not_before) FROM owed WHERE "+waiting+" AND kind = ?", kind).Scan(&at)
	return moment(at.Int64), at.Valid, j.failed(err, "reading the outbox")
}

// Hurry brings forward to latest the intents of the kind that would wait longer.
func (j *Journal) Hurry(ctx context.Context, kind outbox.Kind, latest time.Time) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE owed SET not_before = ?1 WHERE "+waiting+" AND kind = ?2 AND not_before > ?1",
			latest.UnixMilli(), kind)
		return err
	})
	return j.failed(err, "hurrying the outbox")
}

// StartSending notes that an intent is about to be sent. It fails if the intent is being sent
// already, or was delivered.
func (j *Journal) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	return j.changeOwed(ctx, in, waiting, "state = 'sending', tries = tries + 1, sent_at = ?", millis(at))
}

// NoteInDoubt notes that an intent was sent and may be in Notion, why that is not known, and
// when to look it up.
func (j *Journal) NoteInDoubt(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return j.changeOwed(ctx, in, undelivered, "state = 'in_doubt', not_before = ?, last_error = ?", millis(notBefore), text(why))
}

// Retry notes that an intent is certainly not in Notion, why, and when to send it.
func (j *Journal) Retry(ctx context.Context, in outbox.Intent, notBefore time.Time, why error) error {
	return j.changeOwed(ctx, in, undelivered, "state = 'due', not_before = ?, last_error = ?", millis(notBefore), text(why))
}

// Delivered notes that an intent is in Notion, as ref if that is not empty. This state is final.
// The error is outbox.ErrTaken if another intent is there as ref.
func (j *Journal) Delivered(ctx context.Context, in outbox.Intent, ref string, at time.Time) error {
	err := j.write(ctx, func(tx *tx) error {
		if ref != "" {
			var taken bool
			err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM owed WHERE ref = ?1 AND ref <> '' AND seq <> ?2)", ref, in.Seq).Scan(&taken)
			if err == nil && taken {
				err = outbox.ErrTaken
			}
			if err != nil {
				return err
			}
		}
		return changeOwed(ctx, tx, in, undelivered, "state = 'delivered', delivered_at = ?, ref = ?", millis(at), ref)
	})
	return j.failedOwed(err, in)
}

// Drop deletes an intent and unbinds it from its request.
func (j *Journal) Drop(ctx context.Context, in outbox.Intent) error {
	err := j.write(ctx, func(tx *tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM owed WHERE seq = ?", in.Seq); err != nil || in.Key == "" {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE requests SET made = NULL WHERE uid = ? AND key = ? AND made = ?", in.UID, in.Key, in.ID)
		return err
	})
	return j.failed(err, "forgetting creation %s", in.ID)
}

// Delivery reports whether a fact's entry is in a log, and if not, why the last try failed.
func (j *Journal) Delivery(ctx context.Context, event string, log claim.Log) (delivered bool, why string, err error) {
	err = j.readers.QueryRowContext(ctx, `
		SELECT owed.state = 'delivered', last_error FROM owed
		 WHERE fact = (SELECT seq FROM facts WHERE id = ?) AND kind = ?`, event, log).Scan(&delivered, &why)
	return delivered, why, j.failed(err, "entry %s of the %s log", event, log)
}

var errNotOwed = errors.New("it is not owed, or is being sent already")

// changeOwed sets columns in the rows of an intent and those with it, if they meet the condition.
func (j *Journal) changeOwed(ctx context.Context, in outbox.Intent, condition, set string, args ...any) error {
	err := j.write(ctx, func(tx *tx) error { return changeOwed(ctx, tx, in, condition, set, args...) })
	return j.failedOwed(err, in)
}

func changeOwed(ctx context.Context, tx *tx, in outbox.Intent, condition, set string, args ...any) error {
	for _, one := range in.All() {
		n, err := affect(ctx, tx, "UPDATE owed SET "+set+" WHERE seq = ? AND "+condition, append(args, one.Seq)...)
		if err == nil && n == 0 {
			err = errNotOwed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// failedOwed adds to an error which intent it is about.
func (j *Journal) failedOwed(err error, in outbox.Intent) error {
	if in.Kind == outbox.Creation {
		return j.failed(err, "storing that a task is made for request %q", in.Key)
	}
	return j.failed(err, "entry %s of the %s log", in.ID, in.Kind)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recoverOwed puts in doubt the intents that the last process was sending when it stopped, and those
// of which the journal has lost that they were sent.
func recoverOwed(ctx context.Context, tx *tx, lost Span) error {
	var before time.Time
	if _, until := lost.Ago(); !lost.Until.IsZero() {
		before = time.Now().Add(time.Minute - until) // Notion's clock, by which at is, may be behind
	}
	_, err := tx.ExecContext(ctx, "UPDATE owed SET state = 'in_doubt', last_error = ? WHERE "+undelivered+" AND (state = 'sending' OR state = 'due' AND at < ?)",
		outbox.ErrCutOff.Error(), millis(before))
	return err
}
