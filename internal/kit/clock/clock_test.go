package clock_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"dibs/internal/kit/clock"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 6, 27, 12, 0, 0, 0, time.UTC) // this machine's time

// moment is a moment here, at which the wall clock was set forward by some time.
type moment struct{ since, set time.Duration }

func (m moment) instant() clock.Instant {
	return clock.Instant{Wall: start.Add(m.since + m.set), Mono: m.since}
}

// at is a moment at which the wall clock is as it was at the start.
func at(since time.Duration) moment { return moment{since: since} }

func TestClock(t *testing.T) {
	type heard struct {
		date           time.Duration // since start, by Notion's clock
		sent, received moment        // by ours
		doubted        bool
	}
	const ms, s, m, h = time.Millisecond, time.Second, time.Minute, time.Hour
	for _, tc := range []struct {
		name  string
		heard []heard
		now   moment
		want  time.Duration // Notion's
	}{
		{"nothing heard", nil, at(5 * s), 5 * s},
		{"as thought", []heard{{0, at(300 * ms), at(500 * ms), false}}, at(s), s},
		{"a little ahead of us", []heard{{4 * s, at(0), at(0), false}}, at(m), m + 4*s},
		{"far ahead of us", []heard{{h, at(0), at(0), true}}, at(m), m},
		{"far ahead, twice", []heard{{h, at(0), at(0), true}, {h, at(500 * ms), at(500 * ms), false}}, at(m), h + m},
		// It is less than a second after the Date when the answer is made, and the answer takes 0.2 s.
		{"far behind, twice", []heard{{-h, at(0), at(0), true}, {-h, at(0), at(200 * ms), false}}, at(200 * ms), -h + 1200*ms},
		{"ahead, then more exactly", []heard{{h, at(0), at(0), true}, {h + 2*s, at(1100 * ms), at(1200 * ms), false}}, at(1200 * ms), h + 2*s},
		{"ahead, by requests of the same time", []heard{{h, at(0), at(s), true}, {h, at(500 * ms), at(s), true}}, at(s), s},
		{"ahead, by different times", []heard{{h, at(0), at(0), true}, {2 * h, at(s), at(s), true}, {h, at(2 * s), at(2 * s), true}}, at(3 * s), 3 * s},
		{"ahead, then as thought, then ahead", []heard{{h, at(0), at(0), true}, {s, at(s), at(s), false}, {h, at(2 * s), at(2 * s), true}}, at(3 * s), 3 * s},
		{"ahead, then back", []heard{{h, at(0), at(0), true}, {h, at(s), at(s), false}, {2 * s, at(2 * s), at(2 * s), true}}, at(3 * s), h + 3*s},
		{"set forward, not yet heard", nil, moment{m, h}, h + m},
		{"set forward", []heard{{m, moment{m, h}, moment{m, h}, false}}, moment{2 * m, h}, 2 * m},
		{"set back", []heard{{m, moment{m, -h}, moment{m, -h}, false}}, moment{2 * m, -h}, 2 * m},
		{"suspended", []heard{{h + m, moment{m, h}, moment{m, h}, false}}, moment{2 * m, h}, h + 2*m},
		{"suspended while asking", []heard{{m, at(m), moment{m + s, h}, true}}, moment{m + s, h}, h + m + s},
		{"ahead, by different times, and set forward while asking", []heard{{h, at(0), at(0), true}, {h + m, at(s), moment{2 * s, 10 * m}, true}}, moment{3 * s, 0}, 3 * s},
		{"set forward, and ahead", []heard{{3 * h, moment{m, h}, moment{m, h}, true}}, moment{2 * m, h}, h + 2*m},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := clock.New(at(0).instant())
			for i, h := range tc.heard {
				if sure := c.Hear(start.Add(h.date), h.sent.instant(), h.received.instant()); sure == h.doubted {
					t.Errorf("answer %d: sure = %v, want %v", i, sure, !h.doubted)
				}
			}
			if got := c.Now(tc.now.instant()); !got.Equal(start.Add(tc.want)) {
				t.Errorf("Notion's time is %s, want %s", got, start.Add(tc.want))
			}
		})
	}
}

// The longer time of the two that a machine's clocks say is what has passed.
func TestElapsedTime(t *testing.T) {
	for _, tc := range []struct {
		name string
		now  moment
		want time.Duration
	}{
		{"both", at(time.Minute), time.Minute},
		{"wall clock set back", moment{time.Minute, -time.Hour}, time.Minute},
		{"suspended", moment{time.Minute, 8 * time.Hour}, 8*time.Hour + time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := clock.New(at(0).instant()).Now(tc.now.instant()); !got.Equal(start.Add(tc.want)) {
				t.Errorf("the time is %s, want %s", got, start.Add(tc.want))
			}
		})
	}
}

// Whatever is set and removed, the agenda has it in order.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, want := clock.NewAgenda[string](), make(map[string]time.Time)
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		moment := rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "second")), 0) })
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, at := key.Draw(t, "key"), moment.Draw(t, "at")
				a.Set(k, at)
				want[k] = at
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				a.Remove(k)
				delete(want, k)
			},
			"": func(t *rapid.T) {
				start := moment.Draw(t, "start")
				keys := slices.Sorted(maps.Keys(want))
				slices.SortStableFunc(keys, func(x, y string) int { return cmp.Compare(want[x].Unix(), want[y].Unix()) })
				if a.Len() != len(want) {
					t.Fatalf("%d keys, want %d", a.Len(), len(want))
				}
				first, at, ok := a.First()
				if ok != (len(keys) > 0) || ok && (first != keys[0] || !at.Equal(want[first])) {
					t.Fatalf("first is %q at %v, %v; want the first of %v", first, at, ok, keys)
				}
				keys = slices.DeleteFunc(keys, func(k string) bool { return want[k].Before(start) })
				var got []string
				for k, at := range a.From(start) {
					if got = append(got, k); !at.Equal(want[k]) {
						t.Fatalf("%q is at %v, want %v", k, at, want[k])
					}
				}
				if !slices.Equal(got, keys) {
					t.Fatalf("from %v: %v, want %v", start, got, keys)
				}
			},
		})
	})
}

// Reading may end early.
func TestStopping(t *testing.T) {
	a := clock.NewAgenda[int]()
	a.Set(1, time.Unix(1, 0))
	a.Set(2, time.Unix(2, 0))
	for k := range a.From(time.Time{}) {
		if k != 1 {
			t.Errorf("the first is %d, want 1", k)
		}
		break
	}
}
