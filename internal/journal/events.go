package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"

	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Record stores events that change no claim, in the order given, and tells
// agents of what they are to know of them. One that is on record already is left
// as it is.
func (j *Journal) Record(ctx context.Context, events ...claim.Event) error {
	err := j.write(ctx, func(tx *tx) error {
		events, err := unrecorded(ctx, tx, events)
		if err != nil {
			return err
		}
		if err := insertEvents(ctx, tx, events...); err != nil {
			return err
		}
		return j.tellOf(ctx, tx, events)
	})
	return j.failed(err, "recording events")
}

// Recorded reports whether an event is on record.
func (j *Journal) Recorded(ctx context.Context, id string) (known bool, err error) {
	err = j.readers.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM events WHERE id = ?)", id).Scan(&known)
	return known, j.failed(err, "reading the events")
}

// unrecorded returns those of the events that are not on record.
func unrecorded(ctx context.Context, tx *tx, events []claim.Event) ([]claim.Event, error) {
	var out []claim.Event
	for _, e := range events {
		var known bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM events WHERE id = ?)", e.ID).Scan(&known); err != nil {
			return nil, err
		}
		if !known {
			out = append(out, e)
		}
	}
	return out, nil
}

// insertEvents stores events, and puts the entries that they are to become into
// the outbox.
func insertEvents(ctx context.Context, tx *tx, events ...claim.Event) error {
	for _, e := range events {
		body, err := json.Marshal(e)
		if err != nil {
			return err
		}
		// A denial that Notion was asked about becomes an entry by itself, and
		// is not to be summed up again.
		tallied := e.Kind == claim.KindDenied && !e.Remote && e.Against != ""
		seq, err := tx.insert(ctx, `
			INSERT INTO events (id, at, task_id, agent, claim_id, against, tried, took, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
			e.ID, millis(e.At), e.Task, e.Agent, e.Claim, sql.NullString{String: string(e.Against), Valid: tallied},
			sql.NullInt64{Int64: 1, Valid: e.Tried == claim.TriedAgain},
			sql.NullInt64{Int64: max(0, e.Finished.Sub(e.Started).Milliseconds()), Valid: history.Of(e) == history.Completed}, string(body))
		if err != nil {
			return fmt.Errorf("event %q: %w", e.ID, err)
		}
		if e.Tried == claim.TriedOver {
			if err := forgetTries(ctx, tx, e.Task); err != nil {
				return err
			}
		}
		if err := question(ctx, tx, e); err != nil {
			return err
		}
		if err := count(ctx, tx, e); err != nil {
			return err
		}
		for _, log := range e.Logs() {
			if _, err := tx.ExecContext(ctx, "INSERT INTO owed (event, kind, at) VALUES (?, ?, ?)", seq, log, millis(e.At)); err != nil {
				return err
			}
		}
	}
	return nil
}

// EventFilter chooses events; its zero value chooses all.
type EventFilter struct {
	// After is the id of an event, which those chosen were stored after. The id
	// of one that has been pruned stands for the first stored with a later id.
	After string
	Task  task.ID
	Agent string // who did it, or whom it happened to; not the event's Holder
	Claim claim.ID
	Limit int // how many at most, 0 for any number
	// Newest gives the newest first, so that Limit leaves out the oldest.
	Newest bool
}

// Events returns the events that f chooses, in the order in which they were
// stored unless f says otherwise. That order is also the one in which they
// became visible, so that nothing is missed by going on after the last one seen.
func (j *Journal) Events(ctx context.Context, f EventFilter) ([]claim.Event, error) {
	query, args := "SELECT body, count FROM events WHERE true", []any{}
	if f.After != "" {
		id, err := ulid.ParseStrict(f.After)
		if err != nil {
			return nil, fmt.Errorf("reading events: %q is not the id of an event", f.After)
		}
		query += ` AND seq > coalesce(
			(SELECT seq FROM events WHERE id = ?),
			(SELECT min(seq) - 1 FROM events WHERE id > ?),
			?)`
		args = append(args, id.String(), id.String(), int64(math.MaxInt64))
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
	query, args = query+" LIMIT ?", append(args, atMost(f.Limit))
	events, err := collect(ctx, j.readers, scanEvent, query, args...)
	return events, j.failed(err, "reading events")
}

func scanEvent(row scanner) (claim.Event, error) {
	var body []byte
	var count int
	if err := row.Scan(&body, &count); err != nil {
		return claim.Event{}, err
	}
	e, err := decodeEvent(body)
	if count > 1 { // since it was stored
		e.Count = count
	}
	return e, err
}

func decodeEvent(body []byte) (claim.Event, error) {
	var e claim.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return claim.Event{}, fmt.Errorf("the body of an event: %w", err)
	}
	return e, nil
}
