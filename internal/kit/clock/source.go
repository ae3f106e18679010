package clock

import "time"

// Source returns the time. It is safe for concurrent use.
type Source interface{ Now() time.Time }
