package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// kind is a set of few things that are there for a while: each has a key, and is kept as JSON.
type kind string

const (
	keptKeepers  kind = "keepers"  // who keeps a claim alive, by the claim
	keptOffer    kind = "offer"    // of a task to an agent that has yet to answer, by the task
	keptQuestion kind = "question" // of an agent to people, by the task
	keptReserved kind = "reserved" // files or other things, by the reservation
)

// keep keeps a thing in the place of the one of its key. agent is whose it is, where a statement
// asks for that.
func (k kind) keep(ctx context.Context, tx *tx, key, agent string, thing any) error {
	body, err := json.Marshal(thing)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO kept (kind, key, agent, body) VALUES (?, ?, ?, ?)
		    ON CONFLICT (kind, key) DO UPDATE SET agent = excluded.agent, body = excluded.body`, k, key, agent, string(body))
	return err
}

// drop ends the thing of a key, if there is one.
func (k kind) drop(ctx context.Context, tx *tx, key string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM kept WHERE kind = ? AND key = ?", k, key)
	return err
}

// kept returns the thing of a key; ok is false for none.
func kept[T any](ctx context.Context, q querier, k kind, key string) (thing T, ok bool, err error) {
	var body []byte
	err = q.QueryRowContext(ctx, "SELECT body FROM kept WHERE kind = ? AND key = ?", k, key).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return thing, false, nil
	}
	if err == nil {
		err = k.read(body, &thing)
	}
	return thing, err == nil, err
}

// allKept returns the things of a kind with their keys, in the order of these.
func allKept[T any](ctx context.Context, q querier, k kind) (keys []string, things []T, err error) {
	things, err = collect(ctx, q, func(row scanner) (thing T, err error) {
		var key string
		var body []byte
		if err := row.Scan(&key, &body); err != nil {
			return thing, err
		}
		keys = append(keys, key)
		return thing, k.read(body, &thing)
	}, "SELECT key, body FROM kept WHERE kind = ? ORDER BY key", k)
	return keys, things, err
}

func (k kind) read(body []byte, thing any) error {
	if err := json.Unmarshal(body, thing); err != nil {
		return fmt.Errorf("the body of something kept (%s): %w", k, err)
	}
	return nil
}
