package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/claim"
)

// ItemState is where an item of the outbox stands.
type ItemState string

// The states of items that are still owed.
const (
	// Due: not in Notion, and to be sent.
	Due ItemState = "due"
	// Sending: being sent by this process.
	Sending ItemState = "sending"
	// InDoubt: sent, and not known to be in Notion or not. To be looked up
	// before it is sent again.
	InDoubt ItemState = "in_doubt"
)

// Item is an entry that is owed to a log.
type Item struct {
	Entry claim.Event // its id is the entry's
	Log   claim.Log
	State ItemState
	Tries int // how often it was sent
	// NotBefore is when it may be worked on next; zero for at once.
	NotBefore time.Time
	SentAt    time.Time // when it was last sent; zero for never
	LastError string    // of the last attempt that failed
}

// Conditions on rows of the outbox. The first is also that of its index, so every
// statement about items that are owed spells it this way.
const (
	owed    = "outbox.state <> 'delivered'"
	waiting = owed + " AND outbox.state <> 'sending'"
)

// NextOutbox returns the items that are due or in doubt and may be worked on
// now, oldest event first, and at most limit of them if that is not 0.
func (j *Journal) NextOutbox(ctx context.Context, now time.Time, limit int) ([]Item, error) {
	items, err := collect(ctx, j.readers, scanItem, `
		SELECT events.body, log, state, tries, not_before, sent_at, last_error
		  FROM outbox JOIN events ON events.seq = outbox.event
		 WHERE `+waiting+` AND not_before <= ?
		 ORDER BY outbox.event, log LIMIT ?`, now.UnixMilli(), atMost(limit))
	return items, j.failed(err, "reading the outbox")
}

func scanItem(row scanner) (Item, error) {
	var i Item
	var body []byte
	var notBefore, sentAt int64
	err := row.Scan(&body, &i.Log, &i.State, &i.Tries, &notBefore, &sentAt, &i.LastError)
	if err != nil {
		return Item{}, err
	}
	i.NotBefore, i.SentAt = moment(notBefore), moment(sentAt)
	i.Entry, err = decodeEvent(body)
	return i, err
}

// NextOutboxAt returns when the first of the items that are due or in doubt may
// be worked on, and false if there is none. The time is zero, or past, if one
// may be worked on already.
func (j *Journal) NextOutboxAt(ctx context.Context) (time.Time, bool, error) {
	var first sql.NullInt64
	err := j.readers.QueryRowContext(ctx, "SELECT min(not_before) FROM outbox WHERE "+waiting).Scan(&first)
	if err != nil {
		return time.Time{}, false, j.failed(err, "reading the outbox")
	}
	return moment(first.Int64), first.Valid, nil
}

// MarkSending notes, before item is sent, that it is being sent. It fails if
// the item is being sent already, or was delivered.
func (j *Journal) MarkSending(ctx context.Context, item Item, at time.Time) error {
	return j.changeItem(ctx, item, waiting, "state = 'sending', tries = tries + 1, sent_at = ?", millis(at))
}

// MarkInDoubt notes that item was sent and that it is not known whether it is
// in Notion, why, and when to look it up.
func (j *Journal) MarkInDoubt(ctx context.Context, item Item, notBefore time.Time, why error) error {
	return j.changeItem(ctx, item, owed, "state = 'in_doubt', not_before = ?, last_error = ?", millis(notBefore), text(why))
}

// Retry notes that item is known not to be in Notion, why, and when to send it.
func (j *Journal) Retry(ctx context.Context, item Item, notBefore time.Time, why error) error {
	return j.changeItem(ctx, item, owed, "state = 'due', not_before = ?, last_error = ?", millis(notBefore), text(why))
}

// Delivered notes that item is in Notion. Nothing moves it from there any more.
func (j *Journal) Delivered(ctx context.Context, item Item, at time.Time) error {
	return j.changeItem(ctx, item, owed, "state = 'delivered', delivered_at = ?", millis(at))
}

var errNotOwed = errors.New("it is not owed, or is being sent already")

// changeItem changes the row of item as set says, if the condition holds.
func (j *Journal) changeItem(ctx context.Context, item Item, condition, set string, args ...any) error {
	err := j.write(ctx, func(tx *sql.Conn) error {
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

// Backlog is what is owed to one log.
type Backlog struct {
	Depth     int       // how many items
	InDoubt   int       // how many of them are in doubt
	Oldest    time.Time // when the oldest of them happened
	LastError string    // of the one sent last, among those that failed
}

// OutboxStats returns the backlogs of the logs that are owed something.
func (j *Journal) OutboxStats(ctx context.Context) (map[claim.Log]Backlog, error) {
	type row struct {
		log claim.Log
		Backlog
	}
	rows, err := collect(ctx, j.readers, func(s scanner) (r row, err error) {
		var oldest int64
		err = s.Scan(&r.log, &r.Depth, &r.InDoubt, &oldest, &r.LastError)
		r.Oldest = moment(oldest)
		return r, err
	}, `
		SELECT log, count(*), sum(state = 'in_doubt'), min(events.at), coalesce((
		         SELECT last_error FROM outbox failed
		          WHERE failed.log = outbox.log AND failed.state <> 'delivered' AND failed.last_error <> ''
		          ORDER BY failed.sent_at DESC, failed.event DESC LIMIT 1), '')
		  FROM outbox JOIN events ON events.seq = outbox.event
		 WHERE `+owed+`
		 GROUP BY log`)
	if err != nil {
		return nil, j.failed(err, "reading the outbox")
	}
	stats := make(map[claim.Log]Backlog, len(rows))
	for _, r := range rows {
		stats[r.log] = r.Backlog
	}
	return stats, nil
}

// recoverOutbox puts into doubt what the last process was sending when it stopped.
func recoverOutbox(ctx context.Context, tx *sql.Conn) error {
	_, err := tx.ExecContext(ctx, "UPDATE outbox SET state = 'in_doubt', last_error = ? WHERE state = 'sending'",
		"the daemon stopped while it was being sent")
	return err
}
