package daemon_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// sum returns the sum of the steps.
func sum(steps []int) (total int) {
	for _, n := range steps {
		total += n
	}
	return total
}

// waits returns the steps with a value, rounded to seconds.
func waits(steps []*float64) []string {
	out := []string{}
	for _, s := range steps {
		if s != nil {
			out = append(out, time.Duration(*s*float64(time.Second)).Round(time.Second).String())
		}
	}
	return out
}

// within reports whether a equals b to within a tenth.
func within(a, b float64) bool { return a > b*0.9 && a < b*1.1 }

func TestHistoryOfADay(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { c.Notion.Rate = 2 })
		w.until(time.Minute, "the first sync", func() bool { return !n.status().Mirror.SyncedAt.IsZero() })
		began := time.Now()
		login, menu := w.add("Fix the login", nil), w.add("Fix the menu", nil)
		w.until(time.Minute, "the tasks to be known", func() bool { return n.status().Mirror.Ready == 2 })
		ready := time.Now()
		time.Sleep(10 * time.Minute)

		first := n.mustClaim("Sandman", login)
		waited := time.Since(ready).Seconds()
		for range 3 {
			if _, err := n.claim("Oracle", login); code(err) != denied(claim.CodeHeld) {
				t.Fatalf("Oracle: %v", err)
			}
		}
		second := n.mustClaim("Oracle", menu)
		time.Sleep(7 * time.Minute)
		if err := n.complete(first); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Fail(w.Context(), string(second.ID), api.FailRequest{Agent: "Oracle", Reason: "no"}, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 7*time.Second) // not while a request is being sent

		got, err := n.History(w.Context(), 1, 60)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Granted) != 60 || got.StepSeconds != 60 || got.Budget != 120 || got.To.Before(time.Now()) || !got.To.Equal(got.From.Add(time.Hour)) {
			t.Errorf("%d steps of %d s from %v to %v, budget %d", len(got.Granted), got.StepSeconds, got.From, got.To, got.Budget)
		}
		numbers := func(h api.History) string {
			return fmt.Sprintf("%d granted, %d completed, %d failed, %d lost, %d swept, %d held, %d kinds of refusal",
				sum(h.Granted), sum(h.Completed), sum(h.Failed), sum(h.Lost), sum(h.Swept), sum(h.Denied["held"]), len(h.Denied))
		}
		const want = "2 granted, 1 completed, 1 failed, 0 lost, 0 swept, 3 held, 1 kinds of refusal"
		if diff := cmp.Diff(want, numbers(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, s := range got.WaitP50 {
			if (s != nil) != (got.Granted[i] > 0) || s != nil && !within(*s, waited) {
				t.Errorf("step %d has %d grants and waits %v; want %.0f s", i, got.Granted[i], waits(got.WaitP50), waited)
			}
		}
		// Everything about one task is on record, and can be read at once or in pages.
		all, err := n.Log(w.Context(), api.LogFilter{Task: task.ID(login), Limit: 1000})
		kinds := []claim.Kind{}
		for _, e := range all.Entries {
			kinds = append(kinds, e.Kind)
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindDenied, claim.KindCompleted, claim.KindContested}, kinds); err != nil || diff != "" {
			t.Errorf("the record of the task: %v (-want +got):\n%s", err, diff)
		}
		var paged []api.LogEntry
		for after := "00000000000000000000000000"; ; {
			page, err := n.Log(w.Context(), api.LogFilter{Task: task.ID(login), After: after, Limit: 1})
			if err != nil || len(page.Entries) == 0 || len(paged) > len(all.Entries) {
				break
			}
			paged, after = append(paged, page.Entries...), page.Entries[0].ID
		}
		if diff := cmp.Diff(all.Entries, paged); diff != "" {
			t.Errorf("in pages (-want +got):\n%s", diff)
		}
		// It cost no request to Notion, and each request is counted.
		sent := len(w.notion.Requests())
		if got, err = n.History(w.Context(), 1, 60); err != nil || sum(got.Requests) != sent || len(w.notion.Requests()) != sent {
			t.Errorf("%d requests in the history, %v; want the %d that there were, and are %d now", sum(got.Requests), err, sent, len(w.notion.Requests()))
		}
		if before := int(time.Since(began)/time.Minute) + 3; sum(got.Requests[:60-before]) > 0 {
			t.Errorf("requests %v; want none before the start", got.Requests)
		}

		// Everything survives a restart, and further requests are counted, too.
		n.stop()
		n = w.daemon(func(c *config.Config) { c.Notion.Rate, c.StateDir = 2, n.dir })
		time.Sleep(2*time.Minute + 7*time.Second) // not while a request is being sent
		got, err = n.History(w.Context(), 6, 72)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, numbers(got)); diff != "" || sum(got.Requests) != len(w.notion.Requests()) || got.Budget != 600 {
			t.Errorf("after a restart: %d requests of %d, budget %d (-want +got):\n%s", sum(got.Requests), len(w.notion.Requests()), got.Budget, diff)
		}
	})
}
