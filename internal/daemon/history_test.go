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

func TestReportOfADay(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { c.Notion.Rate = 2 })
		w.until(time.Minute, "the first sync", func() bool { return !n.status().Mirror.SyncedAt.IsZero() })
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

		sent := len(w.notion.Requests())
		// All of it is of today, whether the report is of a week or of a day, by hour.
		reported := func() api.Period {
			t.Helper()
			week, err := n.Report(w.Context(), 7)
			if err != nil || len(week.Days) != 8 || len(week.Hours) > 0 {
				t.Fatalf("%d days, %d hours, %v", len(week.Days), len(week.Hours), err)
			}
			day, err := n.Report(w.Context(), 1)
			if err != nil || len(day.Days) != 2 || len(day.Hours) < 24 || len(day.Hours) > 25 {
				t.Fatalf("%d days, %d hours, %v", len(day.Days), len(day.Hours), err)
			}
			granted, held := 0, 0.0
			for _, p := range day.Hours {
				granted, held = granted+p.Granted, held+p.Held
			}
			today := week.Days[7]
			if diff := cmp.Diff(today, day.Days[1]); diff != "" || today.Day != time.Now().Format(time.DateOnly) || granted != today.Granted || held < 0.2 {
				t.Errorf("by hour %d were granted, and %v held (-of a week +of a day):\n%s", granted, held, diff)
			}
			if first := week.Days[0]; first.Day != week.From.Local().Format(time.DateOnly) || !first.From.Equal(week.From.Time) || first.Granted > 0 {
				t.Errorf("the week begins with %+v", first)
			}
			return today
		}
		got := reported()
		for _, wait := range []*float64{got.WaitP50, got.WaitP90} {
			if wait == nil || *wait < waited-60 || *wait > waited+60 {
				t.Errorf("waits %v and %v; want about %.0f s", got.WaitP50, got.WaitP90, waited)
			}
		}
		numbers := func(d api.Period) string {
			return fmt.Sprintf("%d granted, %d completed, %d failed, %d lost, %d held, %d kinds of refusal, %d agents, worked %v",
				d.Granted, d.Completed, d.Failed, d.Lost, d.Denied["held"], len(d.Denied), len(d.Agents), time.Duration(*d.WorkP50*1e9).Round(time.Minute))
		}
		const want = "2 granted, 1 completed, 1 failed, 0 lost, 3 held, 1 kinds of refusal, 2 agents, worked 7m0s"
		if diff := cmp.Diff(want, numbers(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if asked := len(w.notion.Requests()) - sent; asked > 0 {
			t.Errorf("the report cost %d requests", asked)
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
		// Everything survives a restart.
		n.stop()
		n = w.daemon(func(c *config.Config) { c.StateDir = n.dir })
		if diff := cmp.Diff(want, numbers(reported())); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	})
}
