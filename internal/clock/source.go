package clock

import "time"

// Source tells the time. It may be asked by several at the same time.
type Source interface{ Now() time.Time }
