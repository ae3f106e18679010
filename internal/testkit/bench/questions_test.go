package bench_test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"dibs/internal/api"
)

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
		c, err := agent.Claim(b.Context(), api.ClaimRequest{Agent: worker(i % 16)}, "")
		if err != nil {
			b.Fatal(err)
		}
		claimed = append(claimed, string(c.Task.ID))
	}
	d.delivered(b)
	notion.requests(b)

	ask := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			used := d.cpu()
			r := together(b, 1, *length, func(int) error { return do() })
			r.report(b)
			figures.put(b, float64(len(r.took))/r.elapsed.Seconds(), "answers/s")
			figures.put(b, per(d.cpu()-used, len(r.took))/float64(time.Millisecond), "cpu-ms/answer")
			figures.put(b, per(notion.requests(b).all, len(r.took)), "requests/answer")
		})
	}
	i := 0
	ask("refusal", func() error {
		i++
		_, err := agent.Claim(b.Context(), api.ClaimRequest{Agent: "latecomer", Task: claimed[i%held]}, "")
		if err == nil {
			return fmt.Errorf("task %s was granted twice", claimed[i%held])
		}
		if err = refusal(err); err == errRefused {
			return nil
		}
		return err
	})
	ask("ready", func() error {
		_, err := agent.Tasks(b.Context(), api.TaskFilter{Ready: true, Limit: 20})
		return err
	})
	ask("status", func() error {
		_, err := agent.Status(b.Context())
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
			figures.put(b, per(used, len(r.took))/float64(time.Millisecond), "cpu-ms/run")
		})
	}
}
