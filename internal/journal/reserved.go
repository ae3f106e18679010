package journal

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/reserve"
)

var _ reserve.Storage = (*Journal)(nil)

// Reservations returns what agents have reserved beside tasks, in the order in which it
// was made.
func (j *Journal) Reservations(ctx context.Context) ([]reserve.Reservation, error) {
	_, list, err := allKept[reserve.Reservation](ctx, j.readers, keptReserved)
	return list, j.failed(err, "reading the reservations")
}

// StoreReservation stores a reservation, in place of the one of its id if there is one, and the
// facts that go with it.
func (j *Journal) StoreReservation(ctx context.Context, r reserve.Reservation, news ...claim.Fact) error {
	err := j.write(ctx, func(tx *tx) error {
		if err := keptReserved.keep(ctx, tx, r.ID, "", r); err != nil {
			return err
		}
		return insertRecord(ctx, tx, news...)
	})
	return j.failed(err, "storing a reservation of %s", r.Agent)
}

// EndReservations removes reservations, and stores the facts that go with that.
func (j *Journal) EndReservations(ctx context.Context, ids []string, news ...claim.Fact) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if err := keptReserved.drop(ctx, tx, id); err != nil {
				return err
			}
		}
		return insertRecord(ctx, tx, news...)
	})
	return j.failed(err, "ending %d reservations", len(ids))
}
