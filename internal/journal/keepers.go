package journal

import (
	"context"

	"dibs/internal/alive"
	"dibs/internal/claim"
)

// Keepers returns who keeps which claim alive.
func (j *Journal) Keepers(ctx context.Context) (map[claim.ID][]alive.Keeper, error) {
	ids, keepers, err := allKept[[]alive.Keeper](ctx, j.readers, keptKeepers)
	out := make(map[claim.ID][]alive.Keeper)
	for i := range keepers {
		out[claim.ID(ids[i])] = keepers[i]
	}
	return out, j.failed(err, "reading who keeps claims alive")
}

// SetKeepers stores who keeps a claim alive, in place of who did; nobody, if there are none.
func (j *Journal) SetKeepers(ctx context.Context, id claim.ID, keepers []alive.Keeper) error {
	err := j.write(ctx, func(tx *tx) error {
		if len(keepers) == 0 {
			return keptKeepers.drop(ctx, tx, string(id))
		}
		return keptKeepers.keep(ctx, tx, string(id), "", keepers)
	})
	return j.failed(err, "storing who keeps claim %s alive", id)
}
