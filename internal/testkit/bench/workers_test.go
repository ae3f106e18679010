package bench_test

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit"
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
	testkit.Require(b, len(r.took) != 0, "nothing was done in %v; %d refusals", r.elapsed, r.refused)
	slices.Sort(r.took)
	return r
}

// quantile returns the duration that the share q of operations did not exceed.
func (r result) quantile(q float64) time.Duration { return r.took[int(q*float64(len(r.took)-1))] }

// report adds the times to the benchmark's line.
func (r result) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // hide the meaningless time of the whole benchmark
	b.ReportMetric(milliseconds(r.quantile(0.5)), "p50-ms")
	b.ReportMetric(milliseconds(r.quantile(0.99)), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// per returns the share of a total for one of n.
func per[T int | time.Duration](total T, n int) float64 { return float64(total) / float64(n) }

// held is the number of live claims while questions are asked.
const held = 500

// BenchmarkQuestions measures the questions that need no request to Notion, with live claims on a
// large board, and commands from a cold start.
func BenchmarkQuestions(b *testing.B) {
	notion := startBoard(b)
	d := startDaemon(b, notion, alone()...)
	agent := d.agent()
	var claimed []string
	for i := range held {
		c := testkit.Got(client.Do(b.Context(), agent, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: worker(i % 16)})))(b)
		claimed = append(claimed, string(c.Task.ID))
	}
	d.delivered(b)
	notion.requests(b)

	ask := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			used := d.cpu()
			r := together(b, 1, *length, func(int) error { return do() })
			r.report(b)
			b.ReportMetric(float64(len(r.took))/r.elapsed.Seconds(), "answers/s")
			b.ReportMetric(per(d.cpu()-used, len(r.took))/float64(time.Millisecond), "cpu-ms/answer")
			b.ReportMetric(per(notion.requests(b).all, len(r.took)), "requests/answer")
		})
	}
	i := 0
	ask("refusal", func() error {
		i++
		_, err := client.Do(b.Context(), agent, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "latecomer", Task: claimed[i%held]}))
		if err == nil {
			return fmt.Errorf("task %s was granted twice", claimed[i%held])
		}
		if err = refusal(err); err == errRefused {
			return nil
		}
		return err
	})
	ask("ready", func() error {
		_, err := client.Do(b.Context(), agent, api.OpListTasks, api.ListTasksInput{Ready: true, Limit: 20})
		return err
	})
	ask("status", func() error {
		_, err := client.Do(b.Context(), agent, api.OpStatus, struct{}{})
		return err
	})

	for _, command := range []string{"version", "status"} {
		b.Run("dibs-"+command, func(b *testing.B) {
			var r result
			var used time.Duration
			for range 21 {
				cmd := exec.Command(measured, command)
				cmd.Env = d.env
				began := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				r.took = append(r.took, time.Since(began))
				used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			slices.Sort(r.took)
			r.report(b)
			b.ReportMetric(per(used, len(r.took))/float64(time.Millisecond), "cpu-ms/run")
		})
	}
}
