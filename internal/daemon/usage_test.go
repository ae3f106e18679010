package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
)

// using is a report of tokens and US dollars.
func using(tokens int64, usd float64) api.Used {
	return api.Used{Usage: &api.Usage{Tokens: tokens, USD: usd}}
}

// renewUsing renews a claim with a report.
func (n *node) renewUsing(cl api.Claim, tokens int64, usd float64) (api.Claim, error) {
	return client.Do(n.w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: cl.Agent, Used: using(tokens, usd)}))
}

// What an agent reports is a total, kept over a restart, with the claim and in the task log; for a lost
// claim it counts as well. Who has spent what the configuration allows gets no more tasks.
func TestUsage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, second := w.add("Fix the login", nil), w.add("Fix the menu", nil)
		o := w.options(func(c *config.Config) {
			quiet(c)
			c.Agents = []config.Agent{{Name: "Sandman", MaxUSDPerDay: 1.5}}
		})
		n := w.start(o)
		cl := n.mustClaim("Sandman", first)
		renewed, err := n.renewUsing(cl, 9000, 0.2)
		if err != nil || renewed.Usage == nil || *renewed.Usage != (api.Usage{Tokens: 9000, USD: 0.2}) {
			w.Errorf("renewed: %+v, %v", renewed.Usage, err)
		}
		ended, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: "Sandman", Summary: "done", Used: using(12000, 0.42)}))
		if err != nil || *ended.Usage != (api.Usage{Tokens: 12000, USD: 0.42}) {
			w.Errorf("completed: %+v, %v", ended.Usage, err)
		}
		time.Sleep(time.Minute)
		page := w.notion.Pages(w.notion.Databases().TaskLog)[0]
		if got := fmt.Sprint(page.Number("tokens"), page.Number("usd"), page.Body()); !strings.Contains(got, "12000") || !strings.Contains(got, "0.42") {
			w.Errorf("the task log has %s", got)
		}
		n.stop()
		n = w.start(o)
		lost := n.mustClaim("Sandman", second)
		n.take(second)
		_, err = client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(lost.ID), "", api.CompleteRequest{Agent: "Sandman", Used: using(0, 3)}))
		if code(err) != string(api.CodeClaimLost) || !strings.Contains(err.Error(), "is counted") {
			w.Error(err)
		}
		if _, err := n.renewUsing(lost, 0, 4); code(err) != string(api.CodeClaimLost) {
			w.Error(err)
		}
		// nobody else may say so
		if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(lost.ID), "", api.RenewRequest{Agent: "Oracle", Used: using(0, 9)})); err == nil {
			w.Error("another agent says what was used")
		}
		list, err := client.Do(w.Context(), n.Client, api.OpListAgents, api.ListAgentsInput{Days: 7})
		if mustDo(w, err); *list.Agents[0].UsageToday != (api.Usage{Tokens: 12000, USD: 4.42}) {
			w.Errorf("today: %+v", list.Agents[0].UsageToday)
		}
		w.add("Fix the help", nil)
		n.sync()
		if p := n.barred("Sandman", claim.CodeLimitReached); !strings.Contains(p.Detail, "Sandman used up max_usd_per_day: 4.42 of 1.50 USD") {
			w.Errorf("the refusal is %+v", p)
		}
	})
}

// A command that names no claim may mean another one than was lost: it is not counted.
func TestUsageOfAnUnnamedClaim(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		lost, held := w.add("Fix the logout", nil), w.add("Fix the session", nil)
		n := w.daemon(quiet)
		n.mustClaim("Hypnos", lost)
		meant := n.mustClaim("Hypnos", held)
		n.take(lost)
		for _, named := range []string{api.OnlyClaim, string(meant.ID)} {
			_, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(named, "", api.CompleteRequest{Agent: "Hypnos", Used: using(0, 5)}))
			if refused := named == api.OnlyClaim; refused != (code(err) == string(api.CodeClaimLost)) || err != nil && strings.Contains(err.Error(), "is counted") {
				w.Errorf("%s: %v", named, err)
			}
		}
		list, err := client.Do(w.Context(), n.Client, api.OpListAgents, api.ListAgentsInput{Days: 7})
		if mustDo(w, err); list.Agents[0].UsageToday.USD != 5 {
			w.Errorf("Hypnos used %+v", list.Agents[0].UsageToday)
		}
	})
}
