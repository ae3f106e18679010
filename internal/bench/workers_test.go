package bench_test

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// errRefused is what a worker's operation ends with if it was refused in good order.
var errRefused = errors.New("refused")

// result is what workers did together.
type result struct {
	took    []time.Duration // of what was done, in order of length
	refused int
	elapsed time.Duration // until the last was finished
}

// together lets n workers do something again and again, each by itself, for that
// long. What has begun by then is finished, and counts.
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

// quantile is the time within which the share q was done.
func (r result) quantile(q float64) time.Duration { return r.took[int(q*float64(len(r.took)-1))] }

// report puts the times into the benchmark's line.
func (r result) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // of the benchmark as a whole, which says nothing
	figures.put(b, milliseconds(r.quantile(0.5)), "p50-ms")
	figures.put(b, milliseconds(r.quantile(0.99)), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// per is the share of a total that falls to one of n.
func per[T int | time.Duration](total T, n int) float64 { return float64(total) / float64(n) }
