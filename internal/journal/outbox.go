package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

var _ outbox.Ledger = (*Journal)(nil)

// Conditions on rows of owed. The partial indices have the first one, so every statement must
// spell it this way to use them.
const (
	undelivered = "owed.state <> 'delivered'"
	unsent      = undelivered + " AND owed.state <> 'sending'"
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
		 WHERE `+unsent+` AND owed.kind = ? AND not_before + 0 <= ?
		 ORDER BY owed.seq`+upTo, kind, now.UnixMilli(), atMost(limit))
	return list, j.failed(err, "reading the outbox")
}

// NextOwedAt returns when the first intent of a kind that is due or in doubt may be tried, and
// false if there is none. The time is zero or past if that is now.
func (j *Journal) NextOwedAt(ctx context.Context, kind outbox.Kind) (time.Time, bool, error) {
	var at sql.NullInt64
	err := j.readers.QueryRowContext(ctx, "SELECT min(not_before) FROM owed WHERE "+unsent+" AND kind = ?", kind).Scan(&at)
	return moment(at.Int64), at.Valid, j.failed(err, "reading the outbox")
}

// Hurry brings forward to latest the intents of the kind that would wait longer.
func (j *Journal) Hurry(ctx context.Context, kind outbox.Kind, latest time.Time) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE owed SET not_before = ?1 WHERE "+unsent+" AND kind = ?2 AND not_before > ?1",
			latest.UnixMilli(), kind)
		return err
	})
	return j.failed(err, "hurrying the outbox")
}

// StartSending notes that an intent is about to be sent. It fails if the intent is being sent
// already, or was delivered.
func (j *Journal) StartSending(ctx context.Context, in outbox.Intent, at time.Time) error {
	return j.changeOwed(ctx, in, unsent, "state = 'sending', tries = tries + 1, sent_at = ?", millis(at))
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

// ofNotices is a condition on rows of owed.
const ofNotices = "kind >= '" + outbox.Notices + "' AND kind < 'notify;'" // ; follows :

// SetReceivers sets who is owed notices of the facts to come: for each kind of intent, whether a
// fact is one for it. What was owed to other receivers is forgotten.
func (j *Journal) SetReceivers(ctx context.Context, wants map[outbox.Kind]func(claim.Fact) bool) error {
	err := j.write(ctx, func(tx *tx) error {
		tx.notices = wants
		known, err := collect(ctx, tx, scanString, "SELECT DISTINCT kind FROM owed WHERE "+undelivered+" AND "+ofNotices)
		if err != nil {
			return err
		}
		for _, kind := range slices.DeleteFunc(known, func(kind string) bool { return wants[outbox.Kind(kind)] != nil }) {
			if _, err := tx.ExecContext(ctx, "DELETE FROM owed WHERE "+undelivered+" AND kind = ?", kind); err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "storing who is told")
}

// Finishes stands among the logs for the tasks' own pages, which are owed what agents said
// when they finished.
const Finishes claim.Log = "claims"

// Backlog sums up the entries owed to one log.
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
		b.Oldest = earliest(b.Oldest, c.Finish.At)
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
		all.Oldest = earliest(all.Oldest, b.Oldest)
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

// earliest returns the earlier of two moments; known is zero if it is not known.
func earliest(known, t time.Time) time.Time {
	if known.IsZero() || t.Before(known) {
		return t
	}
	return known
}

var errNoRequest = errors.New("no unanswered request has this key")

// keptRequests is how many requests are kept for one user. The oldest answered ones are
// forgotten first, except those whose claims live or whose tasks are still owed.
const keptRequests = 10_000

// BeginRequest begins a request with an idempotency key. Keys are per user; uid is -1 for an
// unknown one. The first caller gets nil, and owns the key until it calls FinishRequest or
// DropRequest. Once it has finished, later callers get its answer. fingerprint identifies the
// request: who asks, and everything that decides what it asks for. The error is outbox.ErrReused
// if the key belongs to a request with another fingerprint, or outbox.ErrUnanswered.
func (j *Journal) BeginRequest(ctx context.Context, uid int, key, fingerprint string, now time.Time) (*outbox.Answer, error) {
	var prior *outbox.Answer
	err := j.write(ctx, func(tx *tx) error {
		prior = nil // of a first run, see writer
		n, err := affect(ctx, tx, `
			INSERT INTO requests (uid, key, nth, fingerprint, created)
			VALUES (?1, ?2, 1 + coalesce((SELECT max(nth) FROM requests WHERE uid = ?1), 0), ?3, ?4)
			    ON CONFLICT (uid, key) DO NOTHING`, uid, key, fingerprint, millis(now))
		if err != nil {
			return err
		}
		if n > 0 {
			_, err := tx.ExecContext(ctx, `
				DELETE FROM requests
				 WHERE uid = ?1 AND nth <= (SELECT max(nth) FROM requests WHERE uid = ?1) - ?2 AND status <> 0 AND NOT `+unfinished,
				uid, keptRequests)
			return err
		}
		var first string
		var a outbox.Answer
		err = tx.QueryRowContext(ctx, "SELECT fingerprint, status, body FROM requests WHERE uid = ? AND key = ?", uid, key).
			Scan(&first, &a.Status, &a.Body)
		switch {
		case err != nil:
			return err
		case first != fingerprint:
			return outbox.ErrReused
		case a.Status == 0:
			return outbox.ErrUnanswered
		}
		prior = &a
		return nil
	})
	if err != nil {
		return nil, j.failed(err, "noting the request")
	}
	return prior, nil
}

// BindRequest notes which claim is made for the request of that user and key, before the claim
// is reserved. It replaces an earlier one.
func (j *Journal) BindRequest(ctx context.Context, uid int, key string, id claim.ID) error {
	return j.changeRequest(ctx, uid, key, "made = ?", id)
}

// RequestMade returns the id of the claim or intent made for the request of that user and key;
// empty if there is none.
func (j *Journal) RequestMade(ctx context.Context, uid int, key string) (string, error) {
	var id sql.NullString
	err := j.readers.QueryRowContext(ctx, "SELECT made FROM requests WHERE uid = ? AND key = ?", uid, key).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", j.failed(err, "noting the request")
	}
	return id.String, nil
}

// FinishRequest stores the answer to the request of that user and key.
func (j *Journal) FinishRequest(ctx context.Context, uid int, key string, a outbox.Answer) error {
	return j.changeRequest(ctx, uid, key, "status = ?, body = ?", a.Status, a.Body)
}

// changeRequest changes the row of a request that has no answer yet.
func (j *Journal) changeRequest(ctx context.Context, uid int, key, set string, args ...any) error {
	err := j.write(ctx, func(tx *tx) error { return changeRequest(ctx, tx, uid, key, set, args...) })
	return j.failed(err, "noting the request")
}

func changeRequest(ctx context.Context, tx *tx, uid int, key, set string, args ...any) error {
	n, err := affect(ctx, tx, "UPDATE requests SET "+set+" WHERE uid = ? AND key = ? AND status = 0", append(args, uid, key)...)
	if err == nil && n == 0 {
		err = errNoRequest
	}
	return err
}

// DropRequest forgets the request of that user and key, so that it can be sent anew. It does
// nothing if the request has an answer.
func (j *Journal) DropRequest(ctx context.Context, uid int, key string) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM requests WHERE uid = ? AND key = ? AND status = 0", uid, key)
		return err
	})
	return j.failed(err, "noting the request")
}

// unfinished is a condition on requests: the claim made for it lives, or what is left of its attempt,
// or the task is still owed.
const unfinished = `(EXISTS (SELECT 1 FROM claims WHERE claims.id = requests.made AND claims.state <> 'ended')
	OR EXISTS (SELECT 1 FROM marks WHERE marks.id = requests.made AND marks.ended = 0)
	OR EXISTS (SELECT 1 FROM owed WHERE owed.id = requests.made AND owed.state <> 'delivered'))`

// recoverRequests forgets the requests that the last process left unanswered, except those that
// made something: what has become of that is their answer, whenever somebody asks again.
func recoverRequests(ctx context.Context, tx *tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM requests WHERE status = 0 AND made IS NULL")
	return err
}
