package journal

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/reserve"
)

var _ reserve.Storage = (*Journal)(nil)

// Reservations returns what agents have reserved beside tasks, in the order in which it
// was made.
func (j *Journal) Reservations(ctx context.Context) ([]reserve.Reservation, error) {
	_, list, err := allKept[reserve.Reservation](ctx, j.readers, keptReserved)
	return list, j.failed(err, "reading the reservations")
}

// StoreReservation stores a reservation, in place of the one of its id if there is one, and its
// events.
func (j *Journal) StoreReservation(ctx context.Context, r reserve.Reservation, news ...reserve.Event) error {
	err := j.write(ctx, func(tx *tx) error {
		if err := keptReserved.keep(ctx, tx, r.ID, "", r); err != nil {
			return err
		}
		return tellReserved(ctx, tx, news)
	})
	return j.failed(err, "storing a reservation of %s", r.Agent)
}

// EndReservations removes reservations, and stores the events that go with that.
func (j *Journal) EndReservations(ctx context.Context, ids []string, news ...reserve.Event) error {
	err := j.writeMany(ctx, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if err := keptReserved.drop(ctx, tx, id); err != nil {
				return err
			}
		}
		return tellReserved(ctx, tx, news)
	})
	return j.failed(err, "ending %d reservations", len(ids))
}

// SumReservations stores an event that sums up others, for the mesh log alone.
func (j *Journal) SumReservations(ctx context.Context, e reserve.Event) error {
	err := j.write(ctx, func(tx *tx) error { return insertEvents(ctx, tx, recordOf(e)) })
	return j.failed(err, "summing up reservations of %s", e.Of.Agent)
}

// tellReserved stores events of reservations for people and for agents.
func tellReserved(ctx context.Context, tx *tx, news []reserve.Event) error {
	for _, e := range news {
		if err := insertEvents(ctx, tx, recordOf(e)); err != nil {
			return err
		}
		told := feed.Event{
			Kind: feed.Reserved, Agent: e.Of.Agent, Claim: e.Of.Claim, Detail: e.Detail(),
			Reservation: e.Of.ID, Patterns: e.Of.Patterns(), Shared: e.Of.Shared, ExpiresAt: e.Of.Until,
		}
		if e.Kind == claim.KindUnreserved {
			told.Kind, told.ExpiresAt = feed.Unreserved, time.Time{}
		}
		if err := insertFeed(ctx, tx, e.At, []feed.Event{told}); err != nil {
			return err
		}
	}
	return nil
}

// recordOf is the entry of the local record, and of the mesh log perhaps.
func recordOf(e reserve.Event) claim.Event {
	out := claim.Event{
		ID: claim.NewEventID(e.At), At: e.At, Kind: e.Kind, Agent: e.Of.Agent, Claim: e.Of.Claim,
		Detail: e.Detail(), Count: e.Count, Remote: e.Mesh,
	}
	if e.Kind == claim.KindReserved {
		out.Expires = e.Of.Until
	}
	return out
}
