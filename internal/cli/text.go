package cli

import (
	"cmp"
	"fmt"
	"strings"
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

// handle returns the shortest name of a task for use in a command.
func handle(t api.TaskRef) string { return clean(cmp.Or(t.Key, string(t.ID))) }

// heldUntil names a held task and says until when.
func heldUntil(c api.Claim, now time.Time) string {
	name := quoted(c.Task)
	if c.State == "finishing" {
		return name + ", " + clean(string(c.Outcome)) + ", not yet in Notion"
	}
	return name + lasting(c.ExpiresAt, now)
}

// withHolder adds the other party to a text that does not name it. alone introduces it if the text
// is empty.
func withHolder(text, holder, alone string) string {
	switch {
	case holder == "" || strings.Contains(text, holder):
		return text
	case text == "":
		return alone + holder
	}
	return text + " (" + holder + ")"
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// took formats a duration in a few characters: in seconds up to two minutes.
func took(s float64) string {
	if d := seconds(s); d >= 2*time.Minute {
		return length(d)
	}
	if s < 10 && s > 0 {
		return fmt.Sprintf("%.1fs", s)
	}
	return fmt.Sprintf("%.0fs", s)
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

// number formats a number of things; 0 is "no things".
func number(n int, thing string) string {
	return cmp.Or(map[int]string{0: "no " + thing + "s", 1: "1 " + thing}[n], fmt.Sprintf("%d %ss", n, thing))
}

// percent formats a share; "0" only if it is exactly 0.
func percent(share float64) string {
	switch {
	case share == 0:
		return "0"
	case share < 0.0005:
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}

// spent formats a usage; a dash without one.
func spent(u *api.Usage) string {
	if u == nil {
		return "-"
	}
	return u.String()
}

// spending returns a claim's usage as the end of a sentence; empty without one.
func spending(c api.Claim) string {
	if c.Usage == nil {
		return ""
	}
	return fmt.Sprintf(", used %v", c.Usage)
}

// somePatterns lists a reservation's patterns, cut to fit a line.
func somePatterns(r api.Reservation) string {
	return beginning(strings.Join(r.Patterns, ", "), maxText)
}

// median formats the median of durations in seconds; a dash if there were none.
func median(s *float64) string {
	if s == nil {
		return "-"
	}
	return took(*s)
}
