package brake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/brake"
)

// A day begins at its first moment and ends at that of the next, also where the clocks change at
// midnight, or a date is left out.
func TestDay(t *testing.T) {
	for _, tt := range []struct{ zone, now, from, until string }{
		{"UTC", "2026-11-26T12:00:00Z", "2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"Europe/Berlin", "2026-10-25T22:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"Asia/Beirut", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},    // 00:00 is 01:00
		{"Asia/Beirut", "2026-03-28T21:59:59Z", "2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z"},    // the day before
		{"America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // 00:30 for the second time
		{"America/Havana", "2026-10-31T12:00:00Z", "2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z"},
		{"Atlantic/Azores", "2026-10-25T12:00:00Z", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"}, // 00:59 again, but of the same day
		{"America/Sao_Paulo", "2018-02-18T12:00:00Z", "2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"},
		{"America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"}, // 23:30 for the second time
		{"Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},      // the 30th is left out
	} {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		from, until, _ := brake.Bounds{Zone: zone}.Day(now)
		if got := from.UTC().Format(time.RFC3339); got != tt.from {
			t.Errorf("%s: the day of %s begins at %s, want %s", tt.zone, tt.now, got, tt.from)
		}
		if got := until.UTC().Format(time.RFC3339); got != tt.until {
			t.Errorf("%s: the day of %s ends at %s, want %s", tt.zone, tt.now, got, tt.until)
		}
	}
}

// A claim that is given back because nothing was heard of its agent counts as one that went stale, and
// one that a person took back does not.
func TestBreakerCountsSilence(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for by, trips := range map[string]bool{claim.Sweeper: true, "Ada": false} {
		h := claim.Hold{
			ID: claim.NewID(now), Agent: "Sandman", Started: now, State: claim.Ended, Ending: claim.EndLost, Ended: now,
			Finish: &claim.Finish{As: claim.EndReleased, By: by, At: now},
		}
		var b brake.State
		if b.Ended(h, brake.Breaker{Failures: 1, Within: time.Minute, Pause: time.Minute}); (b.Tripped != nil) != trips {
			t.Errorf("taken back by %s: %+v, want tripped %v", by, b.Tripped, trips)
		}
	}
}

// Failures in a row, and within the time, pause the board; then one claim is let through, and its end
// decides. What says nothing of the work, as a question to people, neither breaks a row nor is part of one.
func TestBreaker(t *testing.T) {
	began := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	c := brake.Breaker{Failures: 3, Within: 10 * time.Minute, Pause: 15 * time.Minute}
	for steps, trips := range map[string]bool{
		"failed blocked swept": true, "failed failed overridden": true, "failed failed": false, "failed failed completed failed": false,
		"failed released failed failed": false, "failed failed review failed": false, "failed failed lost failed": true, "failed failed died failed": true,
		"failed failed unheard failed": true, "failed failed asked": false, "failed failed asked failed": true, "failed failed never failed": true,
		"failed failed brief": false, "failed failed wait failed": false, "failed wait failed failed": false, "wait failed failed failed": true,
		"failed failed failed pause resumed": false, "failed failed failed pause probe=lost probe=completed": false, "failed failed failed pause probe=asked probe=failed": true,
		"failed failed failed completed": true, "failed failed failed failed pause": false, "failed failed failed pause probe=failed": true,
		"failed failed failed pause probe=completed failed failed": false,
	} {
		var b brake.State
		now := began
		hold := func(ending claim.Ending) claim.Hold {
			h := claim.Hold{ID: claim.NewID(now), Agent: "Sandman", Started: now, State: claim.Ended, Ending: ending, Ended: now, Finish: &claim.Finish{As: ending, At: now}}
			switch ending {
			case "asked":
				h.Ending, h.Finish.As, h.Finish.Ask = claim.EndBlocked, claim.EndBlocked, true
			case "died", "unheard":
				h.Ending, h.Finish.Died, h.Finish.Unheard = claim.EndFailed, ending == "died", ending == "unheard"
			case "never":
				h.Ending, h.Started = claim.EndFailed, time.Time{}
			case "brief":
				h.Ending, h.Brief = claim.EndFailed, true
			}
			return h
		}
		for _, step := range strings.Fields(steps) {
			now = now.Add(time.Second)
			ending, probe := strings.CutPrefix(step, "probe=")
			h := hold(claim.Ending(ending))
			switch {
			case step == "wait":
				now = now.Add(c.Within)
			case step == "pause":
				now = now.Add(c.Pause)
			case step == "resumed":
				if _, was := b.Resume(brake.Everybody, "Ada", "", now); !was {
					t.Errorf("%s: there was no pause", steps)
				}
			case probe:
				if b.Bars("Oracle", now) != nil || !b.Admit(h.ID, now) || b.Admit(claim.NewID(now), now) {
					t.Fatalf("%s: not just one is let through: %+v", steps, b)
				}
				if barred := b.Bars("Oracle", now); barred == nil || !barred.Until.IsZero() || !strings.Contains(barred.Detail, "one task was let through") {
					t.Errorf("%s: beside the probe: %+v", steps, barred)
				}
				b.Ended(h, c)
			default:
				b.Ended(h, c)
			}
		}
		barred := b.Bars("Oracle", now)
		if (barred != nil) != trips || trips && (barred.By != claim.Sweeper || barred.Until != b.Tripped.At.Add(c.Pause) || !strings.Contains(barred.Detail, "failed")) {
			t.Errorf("%s: %+v, want it paused %v", steps, barred, trips)
		}
	}
}

// There are so many pauses at most: each reservation reads them all. That of everybody is always
// possible, and so is another one in place of one; what is over does not count.
func TestPausesAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var b brake.State
	pause := func(agent string) bool {
		_, done := b.Pause(agent, brake.Pause{By: "Ada", At: now, Until: now.Add(time.Hour)}, "")
		return done
	}
	for i := range brake.MostPauses {
		if !pause(fmt.Sprint("made up ", i)) {
			t.Fatalf("pause %d is refused", i)
		}
	}
	for agent, want := range map[string]bool{"one more": false, "and-*": false, "made up 7": true, brake.Everybody: true} {
		if got := pause(agent); got != want {
			t.Errorf("pausing %q: %v, want %v", agent, got, want)
		}
	}
	if _, was := b.Resume("made up 1", "Ada", "", now); !was || !pause("one more") || pause("another") {
		t.Error("not just one more is paused after one ended")
	}
	if now = now.Add(2 * time.Hour); !pause("another") || b.Bars("made up 7", now) != nil {
		t.Error("pauses that are over count")
	}
}
