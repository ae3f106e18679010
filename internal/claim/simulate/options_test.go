package simulate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseProfile(t *testing.T) {
	full := Profile{Min: 50 * time.Millisecond, Median: 100 * time.Millisecond, P99: time.Second, Max: 9 * time.Second}
	for s, want := range map[string]Profile{
		"p50=100ms,p99=1s":                     {50 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second},
		"min=50ms,p50=100ms,p99=1s,max=9s":     full,
		"tail=9s, p99=1s, median=100ms":        full,
		"min=0s,p50=100ms,p99=100ms,max=100ms": {0, 100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		got, err := ParseProfile(s)
		if err != nil || got != want {
			t.Errorf("ParseProfile(%q) = %v, %v; want %v", s, got, err, want)
		}
		if again, err := ParseProfile(got.String()); err != nil || again != got {
			t.Errorf("%q reads back as %v, %v", got, again, err)
		}
	}
	for s, want := range map[string]string{
		"":                         "want p50",
		"p50=100ms":                "required",
		"p99=1s":                   "required",
		"p50=100ms,p99":            "not a length of time",
		"p50=100,p99=1s":           "not a length of time",
		"p50=1s,p75=2s,p99=3s":     "want p50",
		"p50=1s,median=1s,p99=3s":  "given twice",
		"p50=2s,p99=1s":            "min < p50",
		"p50=1s,p99=2s,max=1s":     "min < p50",
		"min=1s,p50=1s,p99=2s":     "min < p50",
		"min=-1s,p50=1s,p99=2s":    "min < p50",
		"p50=100ms,p99=1s,":        "want p50",
		"p50=100ms,p99=1s,max=1ms": "min < p50",
	} {
		if got, err := ParseProfile(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseProfile(%q) = %v, %v; want an error about %q", s, got, err, want)
		}
	}
}

// The drawn durations have the requested percentiles.
func TestProfileDraws(t *testing.T) {
	p := Profile{Min: 90 * time.Millisecond, Median: 180 * time.Millisecond, P99: 900 * time.Millisecond, Max: 2 * time.Second}
	r := rand.New(rand.NewPCG(1, 1))
	const n = 100_000
	whole := make([]time.Duration, n)
	var before, after time.Duration
	for i := range whole {
		d := p.delay(r)
		whole[i] = d.Before + d.Dated + d.After
		before, after = before+d.Before, after+d.After
		if d.Before < 0 || d.After < 0 {
			t.Fatalf("delay %+v runs backwards", d)
		}
	}
	slices.Sort(whole)
	for _, c := range []struct {
		name      string
		got, want time.Duration
		slack     float64
	}{
		{"median", whole[n/2], p.Median, 0.02},
		{"99th percentile", whole[n*99/100], p.P99, 0.05},
		{"longest", whole[n-1], p.Max, 0},
		{"time before the effect", before, after, 0.02},
	} {
		if off := float64(c.got-c.want) / float64(c.want); off > c.slack || off < -c.slack {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	if whole[0] < p.Min {
		t.Errorf("shortest %v, want at least %v", whole[0], p.Min)
	}
}

func TestPercentile(t *testing.T) {
	var times []time.Duration
	if got := percentile(times, 50); got != 0 {
		t.Errorf("median of nothing = %v, want 0", got)
	}
	for i := range 200 {
		times = append(times, time.Duration(i+1)*time.Second)
	}
	for p, want := range map[float64]time.Duration{0: time.Second, 50: 100 * time.Second, 99: 198 * time.Second, 100: 200 * time.Second} {
		if got := percentile(times, p); got != want {
			t.Errorf("percentile %v of 1s to 200s = %v, want %v", p, got, want)
		}
	}
	if got := percentile(times[:1], 99); got != time.Second {
		t.Errorf("percentile of one time = %v, want it", got)
	}
}
