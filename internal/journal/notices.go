package journal

import (
	"context"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// ofNotices is a condition on rows of owed.
const ofNotices = "kind >= '" + outbox.Notices + "' AND kind < 'notify;'" // ; follows :

// SetReceivers sets who is owed notices of the facts to come: for each kind of intent, whether a
// fact is one for it. What was owed to other receivers is forgotten.
func (j *Journal) SetReceivers(ctx context.Context, wants map[outbox.Kind]func(claim.Fact) bool) error {
	err := j.write(ctx, func(tx *tx) error {
		tx.notices = wants
		known, err := collect(ctx, tx, scanString, "SELECT DISTINCT kind FROM owed WHERE "+undelivered+" AND "+ofNotices)
		if err != nil {
			return err
		}
		for _, kind := range slices.DeleteFunc(known, func(kind string) bool { return wants[outbox.Kind(kind)] != nil }) {
			if _, err := tx.ExecContext(ctx, "DELETE FROM owed WHERE "+undelivered+" AND kind = ?", kind); err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "storing who is told")
}

// kindsOf returns the kinds of the intents that a fact becomes.
func (t *tx) kindsOf(f claim.Fact) []outbox.Kind {
	var kinds []outbox.Kind
	for _, log := range f.Logs() {
		kinds = append(kinds, outbox.Kind(log))
	}
	for kind, wants := range t.notices {
		if wants(f) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
