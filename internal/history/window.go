package history

import "time"

// Things are counted by the minute, and by five minutes, in which there is less to look
// through.
const (
	Fine   = time.Minute
	Coarse = 5 * time.Minute
)

// The numbers asked for, and those that are kept for as long as they may be asked for: in
// MaxPoints steps, three minutes each, there are a few hours more than a day.
const (
	MaxHours, MaxPoints = 168, 500

	KeepFine   = 26 * time.Hour
	KeepCoarse = (MaxHours + 25) * time.Hour
)

// Window is a stretch of time in equal steps. They begin at multiples of their length, so
// that a step stays the same for as long as it can be seen.
type Window struct {
	From   time.Time
	Step   time.Duration // of whole minutes
	Points int
}

// Last is the window whose last step now is in, which reaches back for that many hours in
// at most that many steps.
func Last(now time.Time, hours, points int) Window {
	minutes := hours * 60
	each := max(1, (minutes+points-1)/points)
	if each > 3 {
		each = (each + 4) / 5 * 5 // so that Coarse will do
	}
	w := Window{Step: time.Duration(each) * time.Minute, Points: (minutes + each - 1) / each}
	w.From = begin(now, w.Step).Add(-time.Duration(w.Points-1) * w.Step)
	return w
}

// begin is when the step began that t is in.
func begin(t time.Time, step time.Duration) time.Time {
	ms := t.UnixMilli()
	return time.UnixMilli(ms - ms%step.Milliseconds()).UTC()
}

// To is when the last step ends.
func (w Window) To() time.Time { return w.From.Add(time.Duration(w.Points) * w.Step) }

// Span is the longest span that things are counted in and that makes up the steps.
func (w Window) Span() time.Duration {
	if w.Step%Coarse == 0 {
		return Coarse
	}
	return Fine
}

// Index is which step t is in. It may be none of the window's.
func (w Window) Index(t time.Time) int { return int(t.Sub(w.From) / w.Step) }

// Begin is when the span began that t is in.
func Begin(t time.Time, span time.Duration) time.Time { return begin(t, span) }
