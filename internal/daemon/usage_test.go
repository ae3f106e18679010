package daemon_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// using is a report of tokens and US dollars.
func using(tokens int64, usd float64) api.Used {
	return api.Used{Usage: &api.Usage{Tokens: tokens, USD: usd}}
}

// renewUsing renews a claim with a report.
func (n *node) renewUsing(cl api.Claim, tokens int64, usd float64) (api.Claim, error) {
	return client.Do(n.w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: cl.Agent, Used: using(tokens, usd)}))
}

// summary returns an agent's numbers.
func (n *node) summary(agent string) api.AgentSummary {
	n.w.Helper()
	list, err := client.Do(n.w.Context(), n.Client, api.OpListAgents, api.ListAgentsInput{Days: 7})
	mustDo(n.w, err)
	for _, a := range list.Agents {
		if a.Agent == agent {
			return a
		}
	}
	n.w.Fatalf("%s is not among %+v", agent, list.Agents)
	return api.AgentSummary{}
}

// What an agent reports is a total: it grows, is kept over a restart, and is with the claim, its
// agent, its task, the report, the record and the task log.
func TestUsageOfAClaim(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id, second := w.add("Fix the login", nil), w.add("Fix the menu", nil)
		o := w.options(quiet)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		if cl.Usage != nil {
			w.Errorf("a new claim used %+v", cl.Usage)
		}
		want := func(what string, got *api.Usage, tokens int64, usd float64) {
			w.Helper()
			if got == nil || *got != (api.Usage{Tokens: tokens, USD: usd}) {
				w.Errorf("%s: %+v, want %d tokens and %v USD", what, got, tokens, usd)
			}
		}
		for _, r := range []struct {
			tokens int64
			usd    float64
		}{{1000, 0.1}, {1000, 0.1}, {500, 0.2}, {9000, 0}} {
			renewed, err := n.renewUsing(cl, r.tokens, r.usd)
			mustDo(w, err)
			cl = renewed
		}
		want("renewed", cl.Usage, 9000, 0.2)
		n.stop()
		n = w.start(o)
		list, err := client.Do(w.Context(), n.Client, api.OpListClaims, api.AgentFilter{Agent: "Sandman"})
		mustDo(w, err)
		want("after a restart", list.Claims[0].Usage, 9000, 0.2)

		ended, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: "Sandman", Summary: "done", Used: using(12000, 0.42)}))
		mustDo(w, err)
		want("completed", ended.Usage, 12000, 0.42)
		// a late repetition that says more
		ended, err = client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: "Sandman", Summary: "done", Used: using(12000, 0.5)}))
		mustDo(w, err)
		want("completed again", ended.Usage, 12000, 0.5)
		other := n.mustClaim("Sandman", second)
		_, err = client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(other.ID), "", api.StopRequest{Agent: "Sandman", Used: using(0, 1)}))
		mustDo(w, err)
		time.Sleep(time.Minute)

		want("today", n.summary("Sandman").UsageToday, 12000, 1.5)
		want("in seven days", n.summary("Sandman").Usage, 12000, 1.5)
		report, err := client.Do(w.Context(), n.Client, api.OpReport, api.ReportInput{Days: 7})
		if err != nil || len(report.Agents) != 1 || report.Agents[0].USD != 1.5 {
			w.Errorf("the report has %+v, %v; want 1.5 USD", report.Agents, err)
		}
		if today := report.Days[len(report.Days)-1]; today.USD != 1.5 || today.Tokens != 12000 {
			w.Errorf("the report has %v USD and %d tokens of today", today.USD, today.Tokens)
		}
		shown, err := client.Do(w.Context(), n.Client, api.OpGetTask, api.GetTaskInput{ID: id})
		mustDo(w, err)
		want("the task", shown.Usage, 12000, 0.5)
		record, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Claim: string(cl.ID)})
		mustDo(w, err)
		want("the record", record.Entries[len(record.Entries)-1].Usage, 12000, 0.42)
		page := w.notion.Pages(w.notion.Databases().TaskLog)[0]
		if got := fmt.Sprint(page.Number("tokens"), page.Number("usd"), page.Body()); !strings.Contains(got, "12000") || !strings.Contains(got, "0.42") {
			w.Errorf("the task log has %s", got)
		}
		time.Sleep(24 * time.Hour)
		if s := n.summary("Sandman"); s.UsageToday != nil || s.Usage == nil {
			w.Errorf("a day later: %+v today, %+v in seven days", s.UsageToday, s.Usage)
		}
	})
}

// What was used for a claim that is lost is gone all the same, and counts.
func TestUsageOfALostClaim(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		n := w.daemon(quiet)
		cl := n.mustClaim("Sandman", id)
		_, err := n.renewUsing(cl, 0, 1)
		mustDo(w, err)
		n.take(id)
		_, err = client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: "Sandman", Summary: "all", Used: using(0, 3)}))
		if code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "is counted") {
			w.Fatal(err)
		}
		if got := n.summary("Sandman").UsageToday; got == nil || got.USD != 3 {
			w.Errorf("Sandman used %+v", got)
		}
		if _, err := n.renewUsing(cl, 0, 4); code(err) != string(api.CodeClaimLost) {
			w.Error(err)
		}
		if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: api.EventsFuture}); err != nil || got.Usage == nil || got.Usage.USD != 4 {
			w.Errorf("the claim used %+v, %v", got.Usage, err)
		}
		// nobody else may say so
		if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: "Oracle", Used: using(0, 9)})); code(err) != string(api.CodeClaimLost) {
			w.Error(err)
		}
		if got := n.summary("Sandman").UsageToday; got == nil || got.USD != 4 {
			w.Errorf("Sandman used %+v", got)
		}
		// A command without an id may mean another claim: then only the one that names it counts.
		lost, held := w.add("Fix the logout", nil), w.add("Fix the session", nil)
		n.mustClaim("Hypnos", lost)
		meant := n.mustClaim("Hypnos", held)
		n.take(lost)
		for _, named := range []string{api.OnlyClaim, string(meant.ID)} {
			_, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(named, "", api.CompleteRequest{Agent: "Hypnos", Used: using(0, 5)}))
			if refused := named == api.OnlyClaim; refused != (code(err) == string(api.CodeClaimLost)) || err != nil && strings.Contains(err.Error(), "is counted") {
				w.Errorf("%s: %v", named, err)
			}
		}
		if got := n.summary("Hypnos").UsageToday; got == nil || got.USD != 5 {
			w.Errorf("Hypnos used %+v", got)
		}
	})
}

// limited returns options with limits of money a day.
func (w *world) limited(o *config.Config) {
	quiet(o)
	o.Claim.MaxLifetime = 0
	o.Agents = []config.Agent{{Name: "worker-1", MaxUSDPerDay: 1}, {Name: "worker-*", MaxUSDPerDay: 3.5}, {Name: "*"}}
}

// wantSpentOut checks that an agent gets nothing more today.
func (n *node) wantSpentOut(agent, id string, words ...string) {
	n.w.Helper()
	_, err := n.claim(agent, id)
	p, refused := errors.AsType[*api.Problem](err)
	if !refused || string(p.Code) != denied(claim.CodeLimitReached) {
		n.w.Fatalf("%s: %v", agent, err)
	}
	now := time.Now()
	midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, now.Location())
	if off := p.ExpiresAt.Sub(midnight).Abs(); off > 5*time.Second {
		n.w.Errorf("%s is refused until %v, want %v", agent, p.ExpiresAt, midnight)
	}
	for _, word := range append(words, "max_usd_per_day") {
		if !strings.Contains(p.Detail, word) {
			n.w.Errorf("%q does not say %q", p.Detail, word)
		}
	}
}

// Agents get no more tasks once they, or all that a pattern covers, have spent what they may in a
// day: also after a restart, and until midnight. What they hold goes on.
func TestMoneyOfADay(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range 8 {
			ids = append(ids, w.add(fmt.Sprint("Task ", i), nil))
		}
		o := w.options(w.limited)
		n := w.start(o)
		first, held := n.mustClaim("worker-1", ids[0]), n.mustClaim("worker-1", ids[1])
		_, err := n.renewUsing(first, 0, 0.99)
		mustDo(w, err)
		n.mustClaim("worker-1", ids[2])
		_, err = n.renewUsing(held, 0, 0.01)
		mustDo(w, err)
		n.wantSpentOut("worker-1", ids[3], "worker-1 used up max_usd_per_day: 1.00 of 1.00 USD")
		n.wantSpentOut("worker-1", "")
		n.stop()
		n = w.start(o)
		n.wantSpentOut("worker-1", ids[3])
		_, err = n.renewUsing(held, 0, 1.5) // what is held goes on
		mustDo(w, err)

		second := n.mustClaim("worker-2", ids[3])
		_, err = n.renewUsing(second, 0, 1.02) // 3.51 together
		mustDo(w, err)
		n.wantSpentOut("worker-3", ids[4], "the agents worker-* together used up max_usd_per_day: 3.51 of 3.50 USD")
		n.mustClaim("Sandman", ids[4]) // whom no limit covers

		record, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Agent: "worker-3"})
		mustDo(w, err)
		if last := record.Entries[len(record.Entries)-1]; last.Kind != claim.KindDenied || last.Code != claim.CodeLimitReached {
			w.Errorf("on record is %+v", last)
		}
		now := time.Now()
		time.Sleep(time.Until(time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 10, 0, now.Location())))
		n.mustClaim("worker-3", ids[5])
		n.mustClaim("worker-1", ids[6])
	})
}

// However reports are repeated, lost or mixed up, and whatever happens to claims and daemons
// meanwhile, no agent is granted a task after its limit, and what is summed up is what was used.
func TestMoneyOfADayIsCountedOnce(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				o := w.options(w.limited)
				n := w.start(o)
				type spending struct {
					cl  api.Claim
					usd float64
				}
				var claims []*spending
				total := func() (usd float64) {
					for _, s := range claims {
						usd += s.usd
					}
					return usd
				}
				for i := range 40 {
					agent := fmt.Sprint("worker-", 2+rnd.IntN(2))
					switch what := rnd.IntN(10); {
					case what < 3 || len(claims) == 0:
						cl, err := n.claim(agent, w.add(fmt.Sprint("Task ", i), nil))
						if spent := total() > 3.5-1e-9; spent != (code(err) == denied(claim.CodeLimitReached)) || !spent && err != nil {
							w.Fatalf("%v USD are spent, and %s gets %v", total(), agent, err)
						}
						if err == nil {
							claims = append(claims, &spending{cl: cl})
						}
					case what == 3:
						n.stop()
						n = w.start(o)
					default:
						s := claims[rnd.IntN(len(claims))]
						usd := s.usd + float64(rnd.IntN(60)-20)/100
						if usd = max(0, usd); rnd.IntN(4) == 0 {
							_, _ = client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(s.cl.ID), "", api.StopRequest{Agent: s.cl.Agent, Used: using(0, usd)}))
						} else {
							_, _ = n.renewUsing(s.cl, 0, usd) // refused of an ended claim, and counted
						}
						s.usd = max(s.usd, usd)
					}
				}
				sum := 0.0
				list, err := client.Do(w.Context(), n.Client, api.OpListAgents, api.ListAgentsInput{Days: 7})
				mustDo(w, err)
				for _, a := range list.Agents {
					if a.UsageToday != nil {
						sum += a.UsageToday.USD
					}
				}
				if math.Abs(sum-total()) > 1e-9 {
					w.Errorf("%v USD were used, and %v are summed up", total(), sum)
				}
			})
		})
	}
}

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
		if _, err := client.Do(w.Context(), n.Client, api.OpFail, api.On(string(second.ID), "", api.FailRequest{Agent: "Oracle", Reason: "no"})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 7*time.Second) // not while a request is being sent

		sent := len(w.notion.Requests())
		// All of it is of today, whether the report is of a week or of a day, by hour.
		reported := func() api.Period {
			t.Helper()
			week, err := client.Do(w.Context(), n.Client, api.OpReport, api.ReportInput{Days: 7})
			if err != nil || len(week.Days) != 8 || len(week.Hours) > 0 {
				t.Fatalf("%d days, %d hours, %v", len(week.Days), len(week.Hours), err)
			}
			day, err := client.Do(w.Context(), n.Client, api.OpReport, api.ReportInput{Days: 1})
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
		all, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Task: login, Limit: 1000})
		kinds := []claim.Kind{}
		for _, e := range all.Entries {
			kinds = append(kinds, e.Kind)
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindDenied, claim.KindCompleted, claim.KindContested}, kinds); err != nil || diff != "" {
			t.Errorf("the record of the task: %v (-want +got):\n%s", err, diff)
		}
		var paged []api.LogEntry
		for after := "00000000000000000000000000"; ; {
			page, err := client.Do(w.Context(), n.Client, api.OpLog, api.LogInput{Task: login, After: after, Limit: 1})
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
