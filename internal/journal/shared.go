package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/inbox"
)

// bySharing is the taker of triggers that are in the shared inbox: nobody else hands them out.
// Without a shared inbox they come back like those of a poll that was not heard of again.
const bySharing = "shared"

// ShareInbox says that triggers are handed out by an inbox that several daemons share: this
// one only stores what is owed to it, and what every daemon sees on the board is told there.
// To be called before anything is stored.
func (j *Journal) ShareInbox() { j.shared = true }

// Unshared returns triggers that the shared inbox has yet to get, in the order in which they
// were stored: also those that were taken before there was one, and did not come back since
// then.
func (j *Journal) Unshared(ctx context.Context, before time.Time, limit int) ([]inbox.Trigger, error) {
	triggers, err := collect(ctx, j.readers, scanKeyed, `
		SELECT key, body FROM triggers WHERE seq IN (
			SELECT seq FROM triggers WHERE state = 'pending'
			UNION ALL
			SELECT seq FROM triggers WHERE state = 'processing' AND taker <> ? AND taken <= ?)
		 ORDER BY seq LIMIT ?`, bySharing, millis(before), atMost(limit))
	return triggers, j.failed(err, "reading what is owed to the shared inbox")
}

// Shared notes that triggers are in the shared inbox; those that were dealt with meanwhile
// are left as they are.
func (j *Journal) Shared(ctx context.Context, at time.Time, ids ...string) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			_, err := tx.ExecContext(ctx, "UPDATE triggers SET state = 'processing', taken = ?, taker = ?, process = '' WHERE id = ? AND state <> 'acknowledged'", millis(at), bySharing, id)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "noting what is in the shared inbox")
}

// KeepShared stores a copy of triggers that are in the shared inbox, as far as there is none.
func (j *Journal) KeepShared(ctx context.Context, at time.Time, triggers ...inbox.Trigger) error {
	err := j.writeMany(ctx, len(triggers), func(tx *tx) error {
		for _, t := range triggers {
			if _, err := insertTriggers(ctx, tx, t); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE triggers SET state = 'processing', taken = ?, taker = ? WHERE id = ? AND state = 'pending'", millis(at), bySharing, t.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "noting what is in the shared inbox")
}

// Address puts a trigger for each of the agents in the place of one that is for a group of
// them.
func (j *Journal) Address(ctx context.Context, group inbox.Trigger, agents []string) error {
	err := j.writeMany(ctx, len(agents), func(tx *tx) error {
		n, err := affect(ctx, tx, "UPDATE triggers SET state = 'acknowledged' WHERE id = ? AND state <> 'acknowledged'", group.ID)
		if err != nil || n == 0 {
			return err
		}
		t := group
		for _, agent := range agents {
			t.Agent, t.ID = agent, ""
			if _, err := insertTriggers(ctx, tx, t); err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "addressing a trigger")
}

// ShareAgain has everything that is in the shared inbox, and not known to be acknowledged,
// owed to it again: it was emptied.
func (j *Journal) ShareAgain(ctx context.Context) error {
	err := j.writeAlone(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE triggers SET state = 'pending', taker = '' WHERE state = 'processing' AND taker = ?", bySharing)
		return err
	})
	return j.failed(err, "having the inbox shared again")
}

// DoneShared notes which triggers the shared inbox has no more; those unknown here are
// passed over.
func (j *Journal) DoneShared(ctx context.Context, ids ...string) error {
	var known []string
	for _, id := range ids {
		state, err := scanString(j.readers.QueryRowContext(ctx, "SELECT state FROM triggers WHERE id = ? AND state = 'processing' AND taker = ?", id, bySharing))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return j.failed(err, "reading trigger %q", id)
		}
		if state != "" {
			known = append(known, id)
		}
	}
	if len(known) == 0 {
		return nil
	}
	err := j.writeMany(ctx, len(known), func(tx *tx) error {
		for _, id := range known {
			_, err := tx.ExecContext(ctx, "UPDATE triggers SET state = 'acknowledged' WHERE id = ? AND state = 'processing' AND taker = ?", id, bySharing)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "noting what the shared inbox has no more")
}

// InShared returns the ids of the triggers that are in the shared inbox, as far as is known
// here.
func (j *Journal) InShared(ctx context.Context) ([]string, error) {
	ids, err := collect(ctx, j.readers, scanString, "SELECT id FROM triggers WHERE state = 'processing' AND taker = ?", bySharing)
	return ids, j.failed(err, "reading what is in the shared inbox")
}

// Acknowledged returns those of the triggers that are known here to be acknowledged.
func (j *Journal) Acknowledged(ctx context.Context, ids ...string) (acked []string, err error) {
	for _, id := range ids {
		_, err := scanString(j.readers.QueryRowContext(ctx, "SELECT id FROM triggers WHERE id = ? AND state = 'acknowledged'", id))
		switch {
		case err == nil:
			acked = append(acked, id)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, j.failed(err, "reading trigger %q", id)
		}
	}
	return acked, nil
}

// OweAcks stores acknowledgements that the shared inbox could not be told of.
func (j *Journal) OweAcks(ctx context.Context, at time.Time, agent string, ids ...string) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			_, err := tx.ExecContext(ctx, "INSERT INTO acks (id, agent, at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING", id, agent, millis(at))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "storing acknowledgements of %s", agent)
}

// OwedAcks returns the ids of some of those, by their agents.
func (j *Journal) OwedAcks(ctx context.Context, limit int) (map[string][]string, error) {
	owed := make(map[string][]string)
	_, err := collect(ctx, j.readers, func(row scanner) (struct{}, error) {
		var id, agent string
		err := row.Scan(&id, &agent)
		owed[agent] = append(owed[agent], id)
		return struct{}{}, err
	}, "SELECT id, agent FROM acks LIMIT ?", atMost(limit))
	return owed, j.failed(err, "reading acknowledgements")
}

// AcksDone forgets acknowledgements of which the shared inbox knows.
func (j *Journal) AcksDone(ctx context.Context, ids ...string) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, "DELETE FROM acks WHERE id = ?", id); err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "forgetting acknowledgements")
}

// Owed is how many triggers and acknowledgements the shared inbox has yet to get.
func (j *Journal) Owed(ctx context.Context) (n int, err error) {
	err = j.readers.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM triggers WHERE state = 'pending') + (SELECT count(*) FROM acks)").Scan(&n)
	return n, j.failed(err, "counting what is owed to the shared inbox")
}

// LeaveShared does here what the shared inbox was to do, if there was one.
func (j *Journal) LeaveShared(ctx context.Context) error {
	owed, err := j.OwedAcks(ctx, 0)
	if err != nil {
		return err
	}
	for agent, ids := range owed {
		if _, err := j.AckTriggers(ctx, agent, ids); err != nil {
			return err
		}
		if err := j.AcksDone(ctx, ids...); err != nil {
			return err
		}
	}
	groups, err := collect(ctx, j.readers, scanKeyed, "SELECT key, body FROM triggers WHERE state = 'pending' AND agent IN (?, ?)", inbox.Everybody, inbox.Leads)
	if err != nil {
		return j.failed(err, "reading what is owed to the shared inbox")
	}
	for _, t := range groups {
		agents, err := j.Known(ctx)
		if t.Agent == inbox.Leads {
			agents, err = collect(ctx, j.readers, scanString, "SELECT agent FROM pollers WHERE lead = 1 OR finished = 1")
		}
		if err != nil {
			return j.failed(err, "reading who polls")
		}
		agents = slices.DeleteFunc(agents, func(name string) bool { return t.Agent == inbox.Everybody && name == t.From })
		if err := j.Address(ctx, t, agents); err != nil {
			return err
		}
	}
	return nil
}

func scanKeyed(row scanner) (inbox.Trigger, error) {
	var key string
	var body []byte
	if err := row.Scan(&key, &body); err != nil {
		return inbox.Trigger{}, err
	}
	var b triggerBody
	if err := json.Unmarshal(body, &b); err != nil {
		return inbox.Trigger{}, fmt.Errorf("the body of a trigger: %w", err)
	}
	b.Trigger.Task, b.Trigger.Key = b.Task.Whole(), key
	return b.Trigger, nil
}
