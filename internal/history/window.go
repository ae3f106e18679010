package history

import "time"

// The spans in which things are counted: the coarse one has fewer rows to read.
const (
	Fine   = time.Minute
	Coarse = 5 * time.Minute
)

// The largest window that can be asked for, and how long counts are kept for it. Fine counts are
// needed for steps of up to three minutes, and MaxPoints of those are a little more than a day.
const (
	MaxHours, MaxPoints = 168, 500

	KeepFine   = 26 * time.Hour
	KeepCoarse = (MaxHours + 25) * time.Hour
)

// Window is a stretch of time in equal steps. Steps begin at multiples of their length, so that
// the same step shows the same numbers in later windows.
type Window struct {
	From   time.Time
	Step   time.Duration // of whole minutes
	Points int
}

// Last returns the window that ends with the step of now. It has that many hours, in at most
// that many steps.
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

// begin returns the beginning of the step of t.
func begin(t time.Time, step time.Duration) time.Time {
	ms := t.UnixMilli()
	return time.UnixMilli(ms - ms%step.Milliseconds()).UTC()
}

// To returns the end of the last step.
func (w Window) To() time.Time { return w.From.Add(time.Duration(w.Points) * w.Step) }

// Span returns the longest span that divides the step.
func (w Window) Span() time.Duration {
	if w.Step%Coarse == 0 {
		return Coarse
	}
	return Fine
}

// Index returns the step of t; it may lie outside the window.
func (w Window) Index(t time.Time) int { return int(t.Sub(w.From) / w.Step) }

// Begin returns the beginning of the span of t.
func Begin(t time.Time, span time.Duration) time.Time { return begin(t, span) }
