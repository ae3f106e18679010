package journal

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

// Keepers returns who keeps which claim alive.
func (j *Journal) Keepers(ctx context.Context) (map[claim.ID][]keepers.Keeper, error) {
	ids, found, err := allKept[[]keepers.Keeper](ctx, j.readers, keptKeepers)
	out := make(map[claim.ID][]keepers.Keeper)
	for i := range found {
		out[claim.ID(ids[i])] = found[i]
	}
	return out, j.failed(err, "reading who keeps claims alive")
}

// SetKeepers stores who keeps a claim alive, in place of who did; nobody, if there are none.
func (j *Journal) SetKeepers(ctx context.Context, id claim.ID, by []keepers.Keeper) error {
	err := j.write(ctx, func(tx *tx) error {
		if len(by) == 0 {
			return keptKeepers.drop(ctx, tx, string(id))
		}
		return keptKeepers.keep(ctx, tx, string(id), "", by)
	})
	return j.failed(err, "storing who keeps claim %s alive", id)
}
