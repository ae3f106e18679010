package journal

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/reserve"
)

var _ reserve.Storage = (*Journal)(nil)

// Reservations returns the agents' reservations, by id: the oldest first.
func (j *Journal) Reservations(ctx context.Context) ([]reserve.Reservation, error) {
	_, list, err := allKept[reserve.Reservation](ctx, j.readers, keptReservation)
	return list, j.failed(err, "reading the reservations")
}

// StoreReservation stores a reservation, in place of any with the same id, and its facts.
func (j *Journal) StoreReservation(ctx context.Context, r reserve.Reservation, news ...claim.Fact) error {
	err := j.write(ctx, func(tx *tx) error {
		if err := keptReservation.keep(ctx, tx, r.ID, "", r); err != nil {
			return err
		}
		return insertRecord(ctx, tx, news...)
	})
	return j.failed(err, "storing a reservation of %s", r.Agent)
}

// EndReservations deletes reservations, and stores the facts of that.
func (j *Journal) EndReservations(ctx context.Context, ids []string, news ...claim.Fact) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if err := keptReservation.drop(ctx, tx, id); err != nil {
				return err
			}
		}
		return insertRecord(ctx, tx, news...)
	})
	return j.failed(err, "ending %d reservations", len(ids))
}
