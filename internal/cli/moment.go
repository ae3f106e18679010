package cli

import (
	"fmt"
	"time"
)

// moment parses a time as people write it: a time of today, a day, both, or how long ago. A time of
// today that has yet to come is yesterday's.
func moment(s string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	now = now.Local()
	if t, err := time.ParseInLocation("15:04", s, now.Location()); err == nil {
		year, month, day := now.Date()
		t = time.Date(year, month, day, t.Hour(), t.Minute(), 0, 0, now.Location())
		if t.After(now) {
			t = t.AddDate(0, 0, -1)
		}
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want one such as 15:04, 2026-11-25 or 2026-11-25T15:04, or how long ago, such as 2h", s)
}
