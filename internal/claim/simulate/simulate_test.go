package simulate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim/simulate"

	"github.com/google/go-cmp/cmp"
)

// options returns a small simulation in which much goes wrong.
func options() simulate.Options {
	return simulate.Options{
		Seed: 1, Races: 100, Claimers: simulate.Range{Least: 2, Most: 8}, Spread: 500 * time.Millisecond,
		Latency: simulate.DefaultProfile(), Late: 0.05,
		WriteWindow: 2 * time.Second, Settles: []time.Duration{0, 2100 * time.Millisecond},
	}
}

func run(t *testing.T, o simulate.Options) simulate.Report {
	t.Helper()
	report, err := simulate.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// row returns the row of a protocol by hand.
func row(t *testing.T, r simulate.Report, protocol string) simulate.Row {
	t.Helper()
	for _, row := range r.Rows {
		if strings.HasPrefix(row.Protocol, protocol) {
			return row
		}
	}
	t.Fatalf("no row %q in %+v", protocol, r.Rows)
	panic("not reached")
}

func TestWhatRacesShow(t *testing.T) {
	report := run(t, options())
	unsettled, settled := report.Rows[0], report.Rows[1]

	if !settled.Guaranteed || settled.DoubleGrants != 0 || settled.NotRepaired != 0 {
		t.Errorf("settle longer than the window: %+v, want no double grants, and all that was lost repaired", settled)
	}
	if settled.LostWrites == 0 {
		t.Errorf("settle longer than the window: no late write hit a granted claim, so the repairs were not tried")
	}
	if err := report.Broken(); err != nil {
		t.Errorf("Broken() = %v", err)
	}
	if unsettled.Guaranteed || unsettled.DoubleGrants == 0 {
		t.Errorf("no settle wait: %+v, want double grants", unsettled)
	}
	if r := row(t, report, "write, read back"); r.DoubleGrants == 0 || r.NotRepaired < r.DoubleGrants {
		t.Errorf("read back at once: %+v, want double grants, and nobody to repair them", r)
	}
	if r := row(t, report, "name as token"); r.DoubleGrants <= unsettled.DoubleGrants {
		t.Errorf("name as token: %+v, want more double grants than without a settle wait, %d", r, unsettled.DoubleGrants)
	}
	for _, r := range report.Rows {
		if r.LostWrites < r.DoubleGrants {
			t.Errorf("%s: %d lost writes and %d double grants; of two granted claims one is lost", r.Protocol, r.LostWrites, r.DoubleGrants)
		}
	}
}

// Comments work well among claimers that start together, and worse if some arrive before the winner
// has written its claim.
func TestCommentsOfLatecomers(t *testing.T) {
	o := options()
	o.Late = 0
	if r := row(t, run(t, o), "lowest comment"); r.DoubleGrants != 0 {
		t.Errorf("starting together: %+v, want no double grants", r)
	}
	o.Spread = 10 * time.Second
	if r := row(t, run(t, o), "lowest comment"); r.DoubleGrants == 0 {
		t.Errorf("starting within 10s: %+v, want double grants", r)
	}
}

// Without faults, and with each race decided long before the next claimer comes, a claim takes its
// three requests and the settle wait.
func TestClaimLatency(t *testing.T) {
	o := options()
	o.Late, o.Spread, o.Races = 0, 10*time.Minute, 20
	o.Latency = simulate.Profile{Min: 99 * time.Millisecond, Median: 100 * time.Millisecond, P99: 100 * time.Millisecond, Max: 100 * time.Millisecond}
	report := run(t, o)
	for i, want := range []float64{0.3, 2.4} {
		if r := report.Rows[i]; r.P50Seconds != want || r.P99Seconds != want || r.DoubleGrants+r.LostWrites+r.NoWinner != 0 {
			t.Errorf("settle %vs: %+v, want claims of %vs and nothing wrong", *r.SettleSeconds, r, want)
		}
		// Three for the winner, and one for each of up to seven others.
		if r := report.Rows[i]; r.Requests < 4 || r.Requests > 10 {
			t.Errorf("settle %vs: %v requests a race, want 4 to 10", *r.SettleSeconds, r.Requests)
		}
	}
}

func TestSameSeedSameReport(t *testing.T) {
	o := options()
	o.Races = 30
	o.Workers = 1
	first := run(t, o)
	o.Workers = 4
	if diff := cmp.Diff(first, run(t, o)); diff != "" {
		t.Errorf("the same seed gave another report with 4 workers (-1 +4):\n%s", diff)
	}
	o.Seed++
	second := run(t, o)
	second.Seed--
	if cmp.Equal(first, second) {
		t.Error("another seed gave the same report")
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	o := options()
	o.Races = 1e9
	cancel(enough)
	if _, err := simulate.Run(ctx, o); !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause of the context", err)
	}
}

func TestBroken(t *testing.T) {
	r := simulate.Report{Seed: 7, Races: 10, WriteWindowSeconds: 2, Rows: []simulate.Row{
		{SettleSeconds: new(0.0), DoubleGrants: 3}, {SettleSeconds: new(3.0), Guaranteed: true, DoubleGrants: 1}, {DoubleGrants: 5},
	}}
	if err := r.Broken(); err == nil || !strings.Contains(err.Error(), "1 of 10") || !strings.Contains(err.Error(), "--seed 7") {
		t.Errorf("Broken() = %v, want the row, and the seed", err)
	}
	r.Rows[1].DoubleGrants = 0
	if err := r.Broken(); err != nil {
		t.Errorf("Broken() = %v, want nil: the other rows promise nothing", err)
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*simulate.Options){
		"0 races":       func(o *simulate.Options) { o.Races = 0 },
		"1..4 claimers": func(o *simulate.Options) { o.Claimers.Least, o.Claimers.Most = 1, 4 },
		"2..9 claimers": func(o *simulate.Options) { o.Claimers.Most = 9 },
		"5..4 claimers": func(o *simulate.Options) { o.Claimers.Least, o.Claimers.Most = 5, 4 },
		"spread -1s":    func(o *simulate.Options) { o.Spread = -time.Second },
		"late writes":   func(o *simulate.Options) { o.Late = 1.1 },
		"no settle":     func(o *simulate.Options) { o.Settles = nil },
		"each longer":   func(o *simulate.Options) { o.Settles = []time.Duration{3, 3} },
		"settle -1s":    func(o *simulate.Options) { o.Settles = []time.Duration{-time.Second} },
		"write window":  func(o *simulate.Options) { o.WriteWindow = 0 },
		"timeout":       func(o *simulate.Options) { o.Settles = []time.Duration{time.Hour} },
		"latency":       func(o *simulate.Options) { o.Latency = simulate.Profile{} },
	} {
		o := options()
		change(&o)
		if _, err := simulate.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

func TestParseRange(t *testing.T) {
	for s, want := range map[string]simulate.Range{"4": {Least: 4, Most: 4}, "2..8": {Least: 2, Most: 8}} {
		if got, err := simulate.ParseRange(s); err != nil || got != want || got.String() != s {
			t.Errorf("ParseRange(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "x", "2..", "..8", "2-8", "2..4..8"} {
		if got, err := simulate.ParseRange(s); err == nil {
			t.Errorf("ParseRange(%q) = %v, want an error", s, got)
		}
	}
}
