package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Report is the result of a simulation. The same options give the same report.
type Report struct {
	Seed               uint64  `json:"seed"`
	Races              int     `json:"races"` // for each row
	Claimers           string  `json:"claimers"`
	SpreadSeconds      float64 `json:"spread_seconds"`
	Latency            string  `json:"latency"`
	Late               float64 `json:"late_writes"`
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	Rows               []Row   `json:"rows"`
}

// Row is the result of one way of claiming. Counts are numbers of races.
type Row struct {
	Protocol string `json:"protocol"`
	// SettleSeconds is the settle wait of dibs, nil for a protocol by hand.
	SettleSeconds *float64 `json:"settle_seconds,omitempty"`
	// Guaranteed is set if dibs guarantees no double grants with these settings.
	Guaranteed bool `json:"guaranteed"`

	// DoubleGrants counts the races with several grants.
	DoubleGrants int     `json:"double_grants"`
	DoubleRate   float64 `json:"double_grant_rate"`
	// LostWrites counts the races in which another claimer's write covered a granted claim,
	// NotRepaired those in which it still did at the end.
	LostWrites      int     `json:"lost_writes"`
	LostRate        float64 `json:"lost_write_rate"`
	NotRepaired     int     `json:"not_repaired"`
	NotRepairedRate float64 `json:"not_repaired_rate"`
	// NoWinner counts the races without a grant.
	NoWinner     int     `json:"no_winner"`
	NoWinnerRate float64 `json:"no_winner_rate"`

	// Percentiles of the time from request to grant; 0 without a grant.
	P50Seconds float64 `json:"claim_p50_seconds"`
	P99Seconds float64 `json:"claim_p99_seconds"`
	// Requests is the mean number of requests in a race, including the losers'.
	Requests float64 `json:"requests_per_race"`
}

// Run runs the races. It stops early, with the cause, if ctx ends.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	report := Report{
		Seed: o.Seed, Races: o.Races, Claimers: o.Claimers.String(), SpreadSeconds: o.Spread.Seconds(),
		Latency: o.Latency.String(), Late: o.Late, WriteWindowSeconds: o.WriteWindow.Seconds(),
	}
	for _, c := range o.contests() {
		t, err := c.races(ctx, o)
		if err != nil {
			return Report{}, err
		}
		report.Rows = append(report.Rows, c.row(o, t))
	}
	return report, nil
}

// tally counts the outcomes of races.
type tally struct {
	mu                              sync.Mutex
	double, none, overwritten, lost int
	requests                        int
	took                            []time.Duration
}

func (t *tally) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, o.granted...)
	t.double += count(len(o.granted) > 1)
	t.none += count(len(o.granted) == 0)
	t.overwritten += count(o.overwritten)
	t.lost += count(o.lost)
	t.requests += o.requests
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// races runs the races of a contest, several at a time.
func (c contest) races(ctx context.Context, o Options) (*tally, error) {
	var t tally
	var begun atomic.Int64
	var workers sync.WaitGroup
	for range cmp.Or(o.Workers, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(begun.Add(1))
				if n > o.Races {
					return
				}
				t.add(c.run(o, n))
			}
		})
	}
	workers.Wait()
	return &t, context.Cause(ctx)
}

// row sums up a contest.
func (c contest) row(o Options, t *tally) Row {
	rate := func(n int) float64 { return float64(n) / float64(o.Races) }
	slices.Sort(t.took)
	row := Row{
		Protocol:     c.protocol,
		DoubleGrants: t.double, DoubleRate: rate(t.double),
		LostWrites: t.overwritten, LostRate: rate(t.overwritten),
		NotRepaired: t.lost, NotRepairedRate: rate(t.lost),
		NoWinner: t.none, NoWinnerRate: rate(t.none),
		P50Seconds: percentile(t.took, 50).Seconds(), P99Seconds: percentile(t.took, 99).Seconds(),
		Requests: rate(t.requests),
	}
	if c.settle != nil {
		row.SettleSeconds = new(c.settle.Seconds())
		row.Guaranteed = *c.settle > o.WriteWindow
	}
	return row
}

// percentile returns the p-th percentile of sorted times (nearest rank), to the millisecond; zero
// if there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1].Round(time.Millisecond)
}

// Broken returns an error if dibs granted a task twice although it guarantees not to. That would be
// a bug, which the seed reproduces.
func (r Report) Broken() error {
	for _, row := range r.Rows {
		if row.Guaranteed && row.DoubleGrants > 0 {
			return fmt.Errorf("dibs granted %d of %d tasks twice with settle %gs and write window %gs, which must not happen: please report it with the command line, --seed %d included",
				row.DoubleGrants, r.Races, *row.SettleSeconds, r.WriteWindowSeconds, r.Seed)
		}
	}
	return nil
}
