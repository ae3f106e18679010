package broker

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"

	"github.com/oklog/ulid/v2"
)

// Keyed is the idempotency key of a request, empty for none, and the user whose key it is, -1 for
// an unknown one. A request that comes again under its key does nothing twice.
type Keyed struct {
	Key string
	UID int
}

// factID is the id of the fact that the request makes at some time. With a key it is the same one
// however often the request comes that says what, also after a crash.
func (k Keyed) factID(at time.Time, what ...string) string {
	if k.Key == "" {
		return claim.NewFactID(at)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", k.UID, k.Key, strings.Join(what, "\x00")))
	var id ulid.ULID // of no time
	copy(id[6:], sum[:])
	return id.String()
}
