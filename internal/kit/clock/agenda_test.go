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
