package bench_test

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// errRefused is the error of an operation that was refused as expected.
var errRefused = errors.New("refused")

// result is the workers' total.
type result struct {
	took    []time.Duration // durations of the operations, sorted
	refused int
	elapsed time.Duration // until the last was finished
}

// together lets n workers repeat an operation independently for that long. Operations under way at
// the end are finished and count.
func together(b *testing.B, n int, long time.Duration, do func(worker int) error) result {
	b.Helper()
	var (
		mu     sync.Mutex
		r      result
		failed error
		all    sync.WaitGroup
	)
	began := time.Now()
	for worker := range n {
		all.Go(func() {
			var took []time.Duration
			refused := 0
			var broken error
			for broken == nil && time.Since(began) < long {
				start := time.Now()
				switch err := do(worker); {
				case err == nil:
					took = append(took, time.Since(start))
				case errors.Is(err, errRefused):
					refused++
				default:
					broken = err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			r.took, r.refused, failed = append(r.took, took...), r.refused+refused, cmp.Or(failed, broken)
		})
	}
	all.Wait()
	r.elapsed = time.Since(began)
	if failed != nil {
		b.Fatal(failed)
	}
	if len(r.took) == 0 {
		b.Fatalf("nothing was done in %v; %d refusals", r.elapsed, r.refused)
	}
	slices.Sort(r.took)
	return r
}

// quantile returns the duration that the share q of operations did not exceed.
func (r result) quantile(q float64) time.Duration { return r.took[int(q*float64(len(r.took)-1))] }

// report adds the times to the benchmark's line.
func (r result) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // hide the meaningless time of the whole benchmark
	figures.put(b, milliseconds(r.quantile(0.5)), "p50-ms")
	figures.put(b, milliseconds(r.quantile(0.99)), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// per returns the share of a total for one of n.
func per[T int | time.Duration](total T, n int) float64 { return float64(total) / float64(n) }
