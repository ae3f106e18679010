package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/worklog"
)

var _ worklog.Outbox = (*Journal)(nil)

// Conditions on rows of the outbox. The first is also that of its indices, so every
// statement about items that are owed spells it this way.
const (
	undelivered = "outbox.state <> 'delivered'"
	waiting     = undelivered + " AND outbox.state <> 'sending'"
)

// NextOutbox returns the items owed to the given logs that are due or in doubt
// and may be worked on now, oldest event first, and at most limit of them if
// that is not 0.
func (j *Journal) NextOutbox(ctx context.Context, now time.Time, limit int, logs ...claim.Log) ([]worklog.Item, error) {
	if len(logs) == 0 {
		return nil, nil
	}
	args := []any{now.UnixMilli()}
	for _, log := range logs {
		args = append(args, log)
	}
	// The log is that of an expression, so that outbox_owed is gone through, in the order
	// that is wanted, and not all entries of the logs.
	items, err := collect(ctx, j.readers, scanItem, `
		SELECT events.body, log, state = 'in_doubt', tries, sent_at
		  FROM outbox JOIN events ON events.seq = outbox.event
		 WHERE `+waiting+` AND not_before <= ? AND log || '' IN (`+marks(len(logs))+`)
		 ORDER BY outbox.event, log LIMIT ?`, append(args, atMost(limit))...)
	return items, j.failed(err, "reading the outbox")
}

func scanItem(row scanner) (worklog.Item, error) {
	var item worklog.Item
	var body []byte
	var sentAt int64
	err := row.Scan(&body, &item.Log, &item.InDoubt, &item.Tries, &sentAt)
	if err != nil {
		return worklog.Item{}, err
	}
	item.SentAt = moment(sentAt)
	item.Entry, err = decodeEvent(body)
	return item, err
}

// NextOutboxAt returns when the first of the items that are owed to the given
// logs and due or in doubt may be worked on, and false if there is none. The
// time is zero, or past, if one may be worked on already.
func (j *Journal) NextOutboxAt(ctx context.Context, logs ...claim.Log) (time.Time, bool, error) {
	first, found := int64(0), false
	for _, log := range logs {
		var at sql.NullInt64
		err := j.readers.QueryRowContext(ctx, "SELECT min(not_before) FROM outbox WHERE "+waiting+" AND log = ?", log).Scan(&at)
		if err != nil {
			return time.Time{}, false, j.failed(err, "reading the outbox")
		}
		if at.Valid && (!found || at.Int64 < first) {
			first, found = at.Int64, true
		}
	}
	return moment(first), found, nil
}

// Hurry has no item that is owed to the log and due or in doubt wait beyond that time.
func (j *Journal) Hurry(ctx context.Context, latest time.Time, log claim.Log) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE outbox SET not_before = ?1 WHERE "+waiting+" AND log = ?2 AND not_before > ?1",
			latest.UnixMilli(), log)
		return err
	})
	return j.failed(err, "hurrying the outbox")
}

// MarkSending notes, before item is sent, that it is being sent. It fails if
// the item is being sent already, or was delivered.
func (j *Journal) MarkSending(ctx context.Context, item worklog.Item, at time.Time) error {
	return j.changeItem(ctx, item, waiting, "state = 'sending', tries = tries + 1, sent_at = ?", millis(at))
}

// MarkInDoubt notes that item was sent and that it is not known whether it is
// in Notion, why, and when to look it up.
func (j *Journal) MarkInDoubt(ctx context.Context, item worklog.Item, notBefore time.Time, why error) error {
	return j.changeItem(ctx, item, undelivered, "state = 'in_doubt', not_before = ?, last_error = ?", millis(notBefore), text(why))
}

// Retry notes that item is known not to be in Notion, why, and when to send it.
func (j *Journal) Retry(ctx context.Context, item worklog.Item, notBefore time.Time, why error) error {
	return j.changeItem(ctx, item, undelivered, "state = 'due', not_before = ?, last_error = ?", millis(notBefore), text(why))
}

// Delivered notes that item is in Notion. Nothing moves it from there any more.
func (j *Journal) Delivered(ctx context.Context, item worklog.Item, at time.Time) error {
	return j.changeItem(ctx, item, undelivered, "state = 'delivered', delivered_at = ?", millis(at))
}

// Delivery tells whether the entry of an event is in a log, and if not, why the last try
// to put it there came to nothing.
func (j *Journal) Delivery(ctx context.Context, event string, log claim.Log) (delivered bool, why string, err error) {
	err = j.readers.QueryRowContext(ctx, `
		SELECT outbox.state = 'delivered', last_error FROM outbox
		 WHERE event = (SELECT seq FROM events WHERE id = ?) AND log = ?`, event, log).Scan(&delivered, &why)
	return delivered, why, j.failed(err, "entry %s of the %s log", event, log)
}

var errNotOwed = errors.New("it is not owed, or is being sent already")

// changeItem changes the row of item as set says, if the condition holds.
func (j *Journal) changeItem(ctx context.Context, item worklog.Item, condition, set string, args ...any) error {
	err := j.write(ctx, func(tx *tx) error {
		n, err := affect(ctx, tx, `
			UPDATE outbox SET `+set+`
			 WHERE event = (SELECT seq FROM events WHERE id = ?) AND log = ? AND `+condition, append(args, item.Entry.ID, item.Log)...)
		if err == nil && n == 0 {
			err = errNotOwed
		}
		return err
	})
	return j.failed(err, "entry %s of the %s log", item.Entry.ID, item.Log)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recoverOutbox puts into doubt what the last process was sending when it stopped.
func recoverOutbox(ctx context.Context, tx *tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE outbox SET state = 'in_doubt', last_error = ? WHERE "+undelivered+" AND state = 'sending'",
		worklog.ErrCutOff.Error())
	return err
}
