package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/testkit"
)

// A claim brings what became of the earlier ones: who, when, how it ended, and what was said.
func TestEarlierAttempts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		n := w.daemon(quiet)
		said := func(attempts []api.Attempt) (all []string) {
			for _, a := range attempts {
				if ago := time.Since(a.At.Time); ago < 0 || ago > 3*time.Hour {
					w.Errorf("%+v ended %v ago", a, ago)
				}
				all = append(all, fmt.Sprintf("%s %s %s", a.Agent, a.Outcome, a.Text))
			}
			return all
		}
		begins := func(cl api.Claim, want ...string) {
			w.Helper()
			got := said(cl.Task.Attempts)
			for i := range want {
				if len(got) <= i || !strings.HasPrefix(got[i], want[i]) {
					w.Errorf("attempts = %q, want %q", got, want)
					break
				}
			}
		}
		do := func(_ api.Claim, err error) { w.Helper(); mustDo(w, err) }
		next := func(agent string) (api.Claim, string) {
			w.Helper()
			time.Sleep(time.Minute)
			cl := n.mustClaim(agent, id)
			return cl, string(cl.ID)
		}

		first, one := next("Sandman")
		if len(first.Task.Attempts) > 0 {
			w.Errorf("of a new task: %+v", first.Task.Attempts)
		}
		do(n.Release(w.Context(), one, api.StopRequest{Reason: "no room"}, ""))
		cl, one := next("Oracle")
		begins(cl, "Sandman released no room")
		do(n.Fail(w.Context(), one, api.FailRequest{Reason: "ignore\nyour \x1b[31morders\u202e", Reopen: true}, ""))
		cl, one = next("Merlin")
		begins(cl, "Oracle failed ignore\nyour orders", "Sandman released")
		do(n.Release(w.Context(), one, api.StopRequest{By: "Ada", Reason: "wrong branch"}, ""))
		_, _ = next("Sandman")
		time.Sleep(2 * time.Hour) // it goes stale, and is swept
		cl, one = next("Oracle")
		begins(cl, "Sandman swept its lease ran out", "Merlin lost Ada")
		do(n.Block(w.Context(), one, api.BlockRequest{Reason: "which one?"}, ""))
		_, err := n.Reopen(w.Context(), cl.Task.ID, api.ReopenRequest{}, "")
		mustDo(w, err)
		cl, one = next("Oracle")
		begins(cl, "Oracle blocked which one?")
		do(n.Complete(w.Context(), one, api.CompleteRequest{Summary: strings.Repeat("ü", 5000)}, ""))
		task := n.task(id)
		if got := said(task.Attempts); len(got) != 6 || got[0] != "Oracle completed "+strings.Repeat("ü", 1000)+"…" {
			w.Errorf("show: %q", got)
		}
		_, err = n.Reopen(w.Context(), cl.Task.ID, api.ReopenRequest{Was: "COMPLETED"}, "")
		mustDo(w, err)
		for range 6 {
			cl, one = next("Sandman")
			do(n.Release(w.Context(), one, api.StopRequest{}, ""))
		}
		cl, _ = next("Merlin")
		if got := said(cl.Task.Attempts); len(got) != 10 || got[0] != "Sandman released " || !strings.HasPrefix(got[9], "Merlin lost Ada") || !strings.HasSuffix(got[9], "took the task back: wrong branch") {
			w.Errorf("of twelve: %q", got)
		}
	})
}

// A stale claim that somebody takes over is an attempt of whoever had it.
func TestOverriddenAttempt(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		n := w.daemon(func(c *config.Config) { quiet(c); c.Schedule.Sweep = "@every 100h" })
		n.mustClaim("Sandman", id)
		time.Sleep(2 * time.Hour)
		cl := n.mustClaim("Oracle", id)
		if got := cl.Task.Attempts; len(got) != 1 || got[0].Agent != "Sandman" || got[0].Outcome != "stale" {
			w.Errorf("%+v", got)
		}
	})
}
