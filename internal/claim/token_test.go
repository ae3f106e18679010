package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
)

// The claims of a journal have its origin, and those of another journal have another, even if both
// began in the same millisecond.
func TestOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := claim.NewOrigin(), claim.NewOrigin()
		if one == other || len(one) != 4 {
			t.Errorf("the origins are %q and %q", one, other)
		}
		now := time.Now()
		first, second := one.NewID(now), one.NewID(now.Add(time.Hour))
		if first.Origin() != one || second.Origin() != one || first == second {
			t.Errorf("the claims of %q are %s and %s", one, first, second)
		}
		if made, ok := first.Minted(); !ok || !made.Equal(now) {
			t.Errorf("%s was minted at %v, want %v", first, made, now)
		}
	})
}
