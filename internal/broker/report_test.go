package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// wantUsed compares what was used with a number of tokens and of US dollars.
func (h *house) wantUsed(what string, got *api.Usage, tokens int64, usd float64) {
	h.Helper()
	if got == nil || *got != (api.Usage{Tokens: tokens, USD: usd}) {
		h.Errorf("%s: %+v, want %d tokens and %v USD", what, got, tokens, usd)
	}
}

// What an agent reports is a total: it grows, is kept over a restart, also of an ended or lost claim,
// and is with the claim, its agent, its task, the report and the record.
func TestUsage(t *testing.T) {
	inHouse(t, nil, pair(), func(h *house) {
		spend := func(cl api.Claim, tokens int64, usd float64) {
			h.Helper()
			if err := h.Spend(h.Context(), cl.ID, claim.Usage{Tokens: tokens, Micros: int64(usd * 1e6)}); err != nil {
				h.Fatal(err)
			}
		}
		agent := func() api.AgentSummary {
			return must(h, h.ListAgents, &api.ListAgentsInput{Days: 7}).Agents[0]
		}
		cl := h.mustClaim("Sandman", pair()[0].ID)
		if spend(cl, 0, 0); cl.Usage != nil || h.Claims("Sandman").Claims[0].Usage != nil {
			h.Errorf("a new claim used %+v", cl.Usage)
		}
		spend(cl, 1000, 0.1)
		spend(cl, 1000, 0.1)
		spend(cl, 500, 0.2)
		spend(cl, 9000, 0)
		h.restart()
		h.wantUsed("after a restart", h.Claims("Sandman").Claims[0].Usage, 9000, 0.2)
		spend(cl, 12000, 0.42)
		h.wantUsed("completed", h.mustFinish("Sandman", "", claim.EndCompleted, "done").Usage, 12000, 0.42)
		spend(cl, 12000, 0.5) // a late repetition that says more
		lost := h.mustClaim("Sandman", pair()[1].ID)
		h.take(lost)
		spend(lost, 0, 1)
		ended, err := h.Lookup(h.Context(), string(lost.ID), "Sandman")
		if err != nil {
			h.Fatal(err)
		}
		h.wantUsed("the lost claim", ended.Usage, 0, 1)
		h.wantUsed("today", agent().UsageToday, 12000, 1.5)
		h.wantUsed("in seven days", agent().Usage, 12000, 1.5)
		h.wantUsed("the task", must(h, h.GetTask, &api.GetTaskInput{ID: string(pair()[0].ID)}).Usage, 12000, 0.5)
		record := must(h, h.Log, &api.LogInput{Claim: string(cl.ID)}).Entries
		h.wantUsed("the record", record[len(record)-1].Usage, 12000, 0.42)
		report := must(h, h.Report, &api.ReportInput{Days: 7})
		if today := report.Days[len(report.Days)-1]; len(report.Agents) != 1 || report.Agents[0].USD != 1.5 || today.USD != 1.5 || today.Tokens != 12000 {
			h.Errorf("the report has %+v, and of today %+v", report.Agents, today)
		}
		time.Sleep(24 * time.Hour)
		if a := agent(); a.UsageToday != nil || a.Usage == nil {
			h.Errorf("a day later: %+v today, %+v in seven days", a.UsageToday, a.Usage)
		}
	})
}

// A report of a day is the same by hour and in that of a week, after a restart, and costs nothing.
func TestReportOfADay(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		h.publish()
		for _, one := range pair() {
			h.board.Add(one)
			h.Changed(one.ID)
		}
		h.publish()
		ready := time.Now()
		time.Sleep(10 * time.Minute)
		first := h.mustClaim("Sandman", pair()[0].ID)
		waited := time.Since(ready).Seconds()
		for range 3 {
			h.claim("Oracle", pair()[0].ID)
		}
		second := h.mustClaim("Oracle", pair()[1].ID)
		time.Sleep(7 * time.Minute)
		h.mustFinish("", string(first.ID), claim.EndCompleted, "")
		h.mustFinish("", string(second.ID), claim.EndFailed, "no")
		h.publish()
		time.Sleep(time.Minute)
		for _, restart := range []bool{false, true} {
			if restart {
				h.restart()
			}
			var week, day api.Report
			if r, w := h.costs(func() {
				week, day = must(h, h.Report, &api.ReportInput{Days: 7}), must(h, h.Report, &api.ReportInput{Days: 1})
			}); r+w > 0 {
				h.Errorf("the reports cost %d requests", r+w)
			}
			if len(week.Days) != 8 || len(week.Hours) > 0 || len(day.Days) != 2 || len(day.Hours) < 24 || len(day.Hours) > 25 {
				h.Fatalf("%d days, %d hours; %d days, %d hours", len(week.Days), len(week.Hours), len(day.Days), len(day.Hours))
			}
			granted, held := 0, 0.0
			for _, p := range day.Hours {
				granted, held = granted+p.Granted, held+p.Held
			}
			got := week.Days[7]
			if diff := cmp.Diff(got, day.Days[1]); diff != "" || got.Day != time.Now().Format(time.DateOnly) || granted != 2 || held < 0.2 {
				h.Errorf("by hour %d were granted, and %v held (-of a week +of a day):\n%s", granted, held, diff)
			}
			if first := week.Days[0]; first.Day != week.From.Local().Format(time.DateOnly) || !first.From.Equal(week.From.Time) || first.Granted > 0 {
				h.Errorf("the week begins with %+v", first)
			}
			for _, wait := range []*float64{got.WaitP50, got.WaitP90} {
				if wait == nil || *wait < waited-60 || *wait > waited+60 {
					h.Errorf("waits %v and %v; want about %.0f s", got.WaitP50, got.WaitP90, waited)
				}
			}
			numbers := fmt.Sprintf("%d granted, %d completed, %d failed, %d lost, %d held, %d kinds of refusal, %d agents, worked %v",
				got.Granted, got.Completed, got.Failed, got.Lost, got.Denied["held"], len(got.Denied), len(got.Agents), time.Duration(*got.WorkP50*1e9).Round(time.Minute))
			if numbers != "2 granted, 1 completed, 1 failed, 0 lost, 3 held, 1 kinds of refusal, 2 agents, worked 7m0s" {
				h.Error(numbers)
			}
		}
		// Everything about one task is on record, and can be read at once or in pages.
		all := must(h, h.Log, &api.LogInput{Task: string(pair()[0].ID), Limit: 1000}).Entries
		var kinds []claim.Kind
		for _, e := range all {
			kinds = append(kinds, e.Kind)
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindDenied, claim.KindCompleted, claim.KindContested}, kinds); diff != "" {
			h.Errorf("the record of the task (-want +got):\n%s", diff)
		}
		if one := must(h, h.Log, &api.LogInput{Task: string(pair()[0].ID), After: all[0].ID, Limit: 1}).Entries; len(one) != 1 || one[0].ID != all[1].ID {
			h.Errorf("the next one is %+v", one)
		}
	})
}

// Work and cost are also by the values of a field and by task, as tasks are now, with what is spent on
// what is still held; and of the time before, to compare.
func TestReportByFieldAndTask(t *testing.T) {
	tasks := []task.Task{openTask(1, "First"), openTask(2, "Second"), openTask(3, "Third")}
	for i, areas := range []any{[]any{"web", "api"}, []any{"web"}, nil} {
		tasks[i].Fields = task.Fields{"Area": areas}
	}
	furnished := func(h *house) { h.config.Fields = []string{"Area"} }
	inHouse(t, furnished, tasks, func(h *house) {
		spend := func(cl api.Claim, tokens int64, usd float64) {
			h.Helper()
			if err := h.Spend(h.Context(), cl.ID, claim.Usage{Tokens: tokens, Micros: int64(usd * 1e6)}); err != nil {
				h.Fatal(err)
			}
		}
		work := func(id task.ID, as claim.Ending, usd float64) {
			h.Helper()
			cl := h.mustClaim("Sandman", id)
			spend(cl, 10, usd)
			time.Sleep(time.Minute)
			h.mustFinish("", string(cl.ID), as, "so")
		}
		work(tasks[0].ID, claim.EndFailed, 0.1)
		time.Sleep(8 * 24 * time.Hour) // a week and more
		h.board.Edit(tasks[0].ID, func(t *task.Task) { t.Status = task.Open })
		work(tasks[0].ID, claim.EndReleased, 0.1)
		work(tasks[0].ID, claim.EndCompleted, 0.2)
		work(tasks[1].ID, claim.EndFailed, 1)
		held := h.mustClaim("Oracle", tasks[2].ID)
		spend(held, 5, 0)

		r := must(h, h.Report, &api.ReportInput{Days: 7, By: "area", Tasks: true})
		of := func(w api.Work) string {
			return fmt.Sprintf("%d %d %d in %v, %v and %d", w.Completed, w.Failed, w.Lost, w.Took().Round(time.Minute), w.USD, w.Tokens)
		}
		got := []string{"total " + of(r.Total), "before " + of(r.Before), r.By}
		for _, v := range r.Values {
			got = append(got, fmt.Sprintf("%q %s", v.Value, of(v.Work)))
		}
		for _, one := range r.Tasks {
			took := time.Duration(one.Seconds * 1e9).Round(time.Minute)
			got = append(got, fmt.Sprintf("%s by %s: %s, %d in %v, %v and %d, ended %v", one.Task.Title, one.Agent, one.Outcome, one.Claims, took, one.USD, one.Tokens, !one.At.IsZero()))
		}
		if diff := cmp.Diff([]string{
			"total 1 1 0 in 1m0s, 1.3 and 35", "before 0 1 0 in 0s, 0.1 and 10", "Area",
			`"api" 1 0 0 in 1m0s, 0.3 and 20`, `"web" 1 1 0 in 1m0s, 1.3 and 30`, `"" 0 0 0 in 0s, 0 and 5`,
			"Second by Sandman: failed, 1 in 1m0s, 1 and 10, ended true", "First by Sandman: completed, 2 in 2m0s, 0.3 and 20, ended true",
			"Third by Oracle: , 0 in 0s, 0 and 5, ended false",
		}, got); diff != "" {
			h.Errorf("(-want +got):\n%s", diff)
		}
		if plain := must(h, h.Report, &api.ReportInput{Days: 7}); plain.By != "" || plain.Values != nil || plain.Tasks != nil || len(plain.Agents) != 2 {
			h.Errorf("nothing was asked for: %+v", plain)
		}
		if _, err := h.Report(h.Context(), broker.Caller{}, &api.ReportInput{Days: 7, By: "Colour"}); err == nil || !strings.Contains(err.Error(), `by: there is no field "Colour": want one of Area, title,`) {
			h.Error(err)
		}
		if _, err := h.Report(h.Context(), broker.Caller{}, &api.ReportInput{Days: 7, By: "Area=web"}); err == nil || !strings.Contains(err.Error(), "give the field alone") {
			h.Error(err)
		}
	})
}
