package history_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/history"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, time.November, 20, 9, 7, 31, 0, time.UTC)

func TestLast(t *testing.T) {
	day := time.Date(2026, time.November, 20, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		hours, points int
		want          history.Window
		span          time.Duration
	}{
		{1, 500, history.Window{From: day.Add(8*time.Hour + 8*time.Minute), Step: time.Minute, Points: 60}, history.Fine},
		{1, 60, history.Window{From: day.Add(8*time.Hour + 8*time.Minute), Step: time.Minute, Points: 60}, history.Fine},
		{1, 59, history.Window{From: day.Add(8*time.Hour + 8*time.Minute), Step: 2 * time.Minute, Points: 30}, history.Fine},
		{6, 72, history.Window{From: day.Add(3*time.Hour + 10*time.Minute), Step: 5 * time.Minute, Points: 72}, history.Coarse},
		{24, 500, history.Window{From: day.Add(-14*time.Hour - 51*time.Minute), Step: 3 * time.Minute, Points: 480}, history.Fine},
		{168, 10, history.Window{From: history.Begin(t0, 1010*time.Minute).Add(-9 * 1010 * time.Minute), Step: 1010 * time.Minute, Points: 10}, history.Coarse},
	} {
		got := history.Last(t0, tt.hours, tt.points)
		if diff := cmp.Diff(tt.want, got); diff != "" || got.Span() != tt.span {
			t.Errorf("Last(%d hours, %d points), by %v (-want +got):\n%s", tt.hours, tt.points, got.Span(), diff)
		}
	}
}

// Whatever is asked for, the last step is under way, there are no more steps than
// wanted, they reach back as far as wanted but for a part of the last, and what they
// are made of is kept for as long.
func TestEveryWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for hours := 1; hours <= history.MaxHours; hours++ {
		for points := 10; points <= history.MaxPoints; points++ {
			now := t0.Add(time.Duration(random.Int64N(int64(9 * 24 * time.Hour))))
			w := history.Last(now, hours, points)
			keep := history.KeepCoarse
			if w.Span() == history.Fine {
				keep = history.KeepFine
			}
			switch reach := w.To().Sub(w.From); {
			case w.Points > points, w.Points < 1:
				t.Fatalf("%d hours, %d points: %d steps", hours, points, w.Points)
			case w.Index(now) != w.Points-1:
				t.Fatalf("%d hours, %d points: now is in step %d of %d", hours, points, w.Index(now), w.Points)
			case reach < time.Duration(hours)*time.Hour:
				t.Fatalf("%d hours, %d points: %v", hours, points, reach)
			case now.Sub(w.From) > keep:
				t.Fatalf("%d hours, %d points: reaches back to %v, which %v is not kept for", hours, points, now.Sub(w.From), w.Span())
			case w.Step%w.Span() != 0 || w.From.UnixMilli()%w.Step.Milliseconds() != 0:
				t.Fatalf("%d hours, %d points: %v from %v in spans of %v", hours, points, w.Step, w.From, w.Span())
			}
		}
	}
}

// The waits told are those of the grants, within a tenth.
func TestWait(t *testing.T) {
	if _, ok := (history.Counts{history.Granted: 3}).Wait(0.5); ok {
		t.Error("there is a wait, and nobody waited")
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		counts := make(history.Counts)
		var waits []time.Duration
		for range 1 + random.IntN(30) {
			d := time.Duration(random.ExpFloat64() * float64(time.Minute) * float64(1+random.IntN(100)))
			waits = append(waits, d)
			counts[history.Waited(d)]++
		}
		slices.Sort(waits)
		for part, i := range map[float64]int{0.5: (len(waits)+1)/2 - 1, 0.9: (9*len(waits)+9)/10 - 1, 1: len(waits) - 1} {
			got, ok := counts.Wait(part)
			if off := (got - waits[i]).Abs(); !ok || off > waits[i]/10 && off > 100*time.Millisecond {
				t.Fatalf("%v of %v: %v, %v; want %v within a tenth", part, waits, got, ok, waits[i])
			}
		}
	}
	for _, d := range []time.Duration{-time.Second, 0, 1, 100 * time.Millisecond} {
		if got, ok := (history.Counts{history.Waited(d): 1}).Wait(0.5); got != 0 || !ok {
			t.Errorf("a wait of %v is told as %v, %v", d, got, ok)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := history.Median(nil); got != nil {
		t.Errorf("the median of nothing is %v", *got)
	}
	for want, of := range map[time.Duration][]time.Duration{7: {7}, 3: {4, 2}, 5: {9, 5, 1}} {
		if got := history.Median(of); *got != want {
			t.Errorf("the median of %v is %v, want %v", of, *got, want)
		}
	}
}

func TestOf(t *testing.T) {
	for kind, want := range map[claim.Kind]struct {
		name  history.Name
		alive bool
	}{
		claim.KindGranted: {history.Granted, true}, claim.KindDenied: {"denied/held", true},
		claim.KindCompleted: {history.Completed, true}, claim.KindReview: {history.Completed, true},
		claim.KindFailed: {history.Failed, true}, claim.KindReleased: {"", true}, claim.KindBlocked: {"", true},
		claim.KindRenewed: {"", true}, claim.KindMessage: {"", true}, claim.KindReserved: {"", true}, claim.KindReopened: {"", true},
		claim.KindLost: {history.Lost, false}, claim.KindOverridden: {history.Lost, true}, claim.KindSwept: {history.Swept, false},
		claim.KindConflict: {"", false}, claim.KindContested: {"", false}, claim.KindExpiring: {"", false},
		claim.KindCleared: {"", false}, claim.KindWithdrawn: {"", false}, claim.KindUnreserved: {"", false},
	} {
		e := claim.Fact{Kind: kind, Code: claim.CodeHeld, Agent: "Sandman"}
		if got := history.Of(e); got != want.name {
			t.Errorf("%s counts as %q, want %q", kind, got, want.name)
		}
		if got := history.Alive(e); got != want.alive {
			t.Errorf("%s shows that its agent is there: %v", kind, got)
		}
		if e.Agent = ""; history.Alive(e) {
			t.Errorf("%s shows that nobody is there", kind)
		}
	}
	if got := history.Of(claim.Fact{Kind: claim.KindCompleted, By: "user maria"}); got != "" {
		t.Errorf("a person's approval counts as %q", got)
	}
}

func TestAdd(t *testing.T) {
	met := make(history.Names)
	for object, want := range map[string]history.Counts{
		`{"granted":2,"denied/held":12}`:          {"granted": 3, "denied/held": 12},
		`{"failed":1}`:                            {"granted": 1, "failed": 1},
		`{}`:                                      {"granted": 1},
		`{ "failed" : 1, "granted": 4 }`:          {"granted": 5, "failed": 1},
		`{"granted":2,"a\"b":1}`:                  {"granted": 3, `a"b`: 1},
		`{"granted":2,"` + "a\\u0062" + `,\"":1}`: {"granted": 3, `ab,"`: 1},
	} {
		got := history.Counts{history.Granted: 1}
		if err := got.Add([]byte(object), met); err != nil {
			t.Errorf("%s: %v", object, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", object, diff)
		}
	}
	for _, object := range []string{``, `{`, `{"granted":2`, `{"granted":2,`, `{"granted":2}}`, `{"granted":"x"}`, `[1]`, `{"granted":2,}`} {
		got := history.Counts{history.Granted: 1}
		if err := got.Add([]byte(object), met); err == nil || got[history.Granted] != 1 {
			t.Errorf("%s: %v, %v; want an error and nothing added", object, got, err)
		}
	}
}
