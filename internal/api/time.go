package api

import "time"

// Time is a moment. In JSON it is RFC 3339 in UTC, to the millisecond, and by this
// machine's clock: the server sees to that, for the broker reckons in Notion's time.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the time as a string.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}
