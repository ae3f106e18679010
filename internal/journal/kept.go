package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// kind names a set of few, short-lived things. Each has a key, and is stored as JSON.
type kind string

const (
	keptKeepers     kind = "keepers"  // who keeps a claim alive, by the claim
	keptOffer       kind = "offer"    // of a task to an agent that has not answered yet, by the task
	keptQuestion    kind = "question" // of an agent to people, by the task
	keptReservation kind = "reserved" // files or other things, by the reservation
)

// keep stores a thing, in place of any with the same key. agent is its owner, for the kinds that
// statements select by agent.
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

// drop deletes the thing with that key, if there is one.
func (k kind) drop(ctx context.Context, tx *tx, key string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM kept WHERE kind = ? AND key = ?", k, key)
	return err
}

// kept returns the thing with that key; ok is false if there is none.
func kept[T any](ctx context.Context, q querier, k kind, key string) (thing T, ok bool, err error) {
	thing, err = scanBody[T](q.QueryRowContext(ctx, "SELECT body FROM kept WHERE kind = ? AND key = ?", k, key), string(k))
	if errors.Is(err, sql.ErrNoRows) {
		return thing, false, nil
	}
	return thing, err == nil, err
}

// allKept returns the things of a kind and their keys, by key.
func allKept[T any](ctx context.Context, q querier, k kind) (keys []string, things []T, err error) {
	things, err = collect(ctx, q, func(row scanner) (thing T, err error) {
		var key string
		var body []byte
		if err := row.Scan(&key, &body); err != nil {
			return thing, err
		}
		keys = append(keys, key)
		return fromBody[T](body, string(k))
	}, "SELECT key, body FROM kept WHERE kind = ? ORDER BY key", k)
	return keys, things, err
}

// fromBody returns what a row's body says, which is JSON; what names it in an error.
func fromBody[T any](body []byte, what string) (thing T, err error) {
	if err := json.Unmarshal(body, &thing); err != nil {
		return thing, fmt.Errorf("the body of a %s: %w", what, err)
	}
	return thing, nil
}

// scanBody is fromBody for a row of a body alone.
func scanBody[T any](row scanner, what string) (thing T, err error) {
	var body []byte
	if err := row.Scan(&body); err != nil {
		return thing, err
	}
	return fromBody[T](body, what)
}
