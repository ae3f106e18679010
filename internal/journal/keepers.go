package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"dibs/internal/alive"
	"dibs/internal/claim"
)

// Keepers returns who keeps which claim alive.
func (j *Journal) Keepers(ctx context.Context) (map[claim.ID][]alive.Keeper, error) {
	out := make(map[claim.ID][]alive.Keeper)
	_, err := collect(ctx, j.readers, func(row scanner) (struct{}, error) {
		var id claim.ID
		var body []byte
		if err := row.Scan(&id, &body); err != nil {
			return struct{}{}, err
		}
		var keepers []alive.Keeper
		if err := json.Unmarshal(body, &keepers); err != nil {
			return struct{}{}, fmt.Errorf("who keeps claim %s: %w", id, err)
		}
		out[id] = keepers
		return struct{}{}, nil
	}, "SELECT claim_id, body FROM keepers")
	return out, j.failed(err, "reading who keeps claims alive")
}

// SetKeepers stores who keeps a claim alive, in place of who did; nobody, if there are none.
func (j *Journal) SetKeepers(ctx context.Context, id claim.ID, keepers []alive.Keeper) error {
	body, err := json.Marshal(keepers)
	if err != nil {
		return err
	}
	err = j.write(ctx, func(tx *tx) error {
		if len(keepers) == 0 {
			_, err := tx.ExecContext(ctx, "DELETE FROM keepers WHERE claim_id = ?", id)
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO keepers (claim_id, body) VALUES (?, ?)
			    ON CONFLICT (claim_id) DO UPDATE SET body = excluded.body`, id, string(body))
		return err
	})
	return j.failed(err, "storing who keeps claim %s alive", id)
}
