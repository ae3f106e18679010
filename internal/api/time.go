package api

import "time"

// Time is a moment by this machine's clock. In JSON it is RFC 3339 in UTC, to the millisecond. The
// broker converts it from Notion's time.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the time as a string.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}
