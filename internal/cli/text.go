package cli

import (
	"cmp"
	"fmt"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/task"
)

// clean makes untrusted text safe to print on a terminal, in one line.
func clean(s string) string { return task.OneLine(s, unicode.ReplacementChar) }

// How many characters a table shows of a title, and of other text.
const (
	maxTitle = 60
	maxText  = 100
)

// short cuts a title to fit a cell.
func short(s string) string { return beginning(s, maxTitle) }

// beginning cuts a text to so many characters.
func beginning(s string, fits int) string {
	runes := []rune(clean(s))
	if len(runes) <= fits {
		return string(runes)
	}
	return string(runes[:fits-1]) + "…"
}

// quoted returns a task's key, if it has one, and its title in quotes, for a sentence.
func quoted(t api.TaskRef) string {
	title := `"` + short(cmp.Or(t.Title, string(t.ID))) + `"`
	if t.Key == "" {
		return title
	}
	return clean(t.Key) + " " + title
}

// accepted returns the end of a sentence about a change that Notion has yet to be told of; empty
// without a detail, which says what keeps it.
func accepted(detail string) string {
	if detail == "" {
		return ""
	}
	return "; accepted, and written to Notion as soon as that works: " + clean(detail)
}

// length formats a duration in minutes or larger units, rounded up.
func length(d time.Duration) string {
	minutes := max(0, int64((d+time.Minute-1)/time.Minute))
	switch hours := minutes / 60; {
	case minutes < 60:
		return fmt.Sprintf("%dm", minutes)
	case hours < 24:
		return fmt.Sprintf("%dh%02dm", hours, minutes%60)
	default:
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
}

// ago formats how long ago t was; in seconds within the last minute.
func ago(t, now time.Time) string {
	if d := now.Sub(t); d < time.Minute {
		return fmt.Sprintf("%ds ago", max(0, int(d.Seconds())))
	}
	return length(now.Sub(t).Truncate(time.Minute)) + " ago"
}

// clock formats a time of today as a time, any other with its date, and one of another year with
// that.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04")
	case t.YearDay() != now.YearDay():
		return t.Format("Jan 2 15:04")
	}
	return t.Format("15:04")
}

// lasting returns " until …" for the end of a sentence; empty without a time.
func lasting(until api.Time, now time.Time) string {
	if until.IsZero() {
		return ""
	}
	text := " until " + clock(until.Time, now)
	if until.After(now) {
		text += ", in " + spoken(until.Sub(now))
	}
	return text
}

// spoken formats a duration in words, in minutes or larger units, rounded up.
func spoken(d time.Duration) string {
	minutes := max(0, int64((d+time.Minute-1)/time.Minute))
	switch hours := minutes / 60; {
	case hours == 0:
		return count(minutes, "minute")
	case hours >= 24 && hours%24 == 0:
		return count(hours/24, "day")
	case hours >= 24:
		return count(hours/24, "day") + " " + count(hours%24, "hour")
	case minutes%60 == 0:
		return count(hours, "hour")
	default:
		return count(hours, "hour") + " " + count(minutes%60, "minute")
	}
}

// count formats a number of things.
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

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
