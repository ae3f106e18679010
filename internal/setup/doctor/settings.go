package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/outbox/notify"
)

// settings compares the running daemon's settings with the configuration. It skips what a daemon of
// another version does not report, and the settings that a cluster ignores (settle and exclusive)
// if either side is a cluster.
func (e *examination) settings(p api.PolicyStatus, member bool) {
	var differ []string
	compare := func(key, runs, configured string) {
		if runs != "" && runs != configured {
			differ = append(differ, fmt.Sprintf("%s %s, and %s is configured", key, runs, configured))
		}
	}
	c := e.Config.Claim
	if p.TimeoutSeconds > 0 {
		compare("claim.timeout", seconds(p.TimeoutSeconds), c.Timeout.String())
	}
	compare("claim.write_window", seconds(p.WriteWindowSeconds), c.WriteWindow.String())
	alone := !member && !e.Config.Journal.Shared()
	if alone {
		compare("claim.settle", seconds(p.SettleSeconds), c.Settle.String())
	}
	if p.Override != "" {
		compare("claim.override", p.Override, string(c.Override))
		if alone {
			compare("claim.exclusive", fmt.Sprint(p.Exclusive), fmt.Sprint(c.Exclusive))
		}
	}
	if p.MaxPerAgent != nil {
		compare("claim.max_per_agent", fmt.Sprint(*p.MaxPerAgent), fmt.Sprint(c.MaxPerAgent))
	}
	if p.MaxLifetimeSeconds != nil {
		compare("claim.max_lifetime", seconds(*p.MaxLifetimeSeconds), c.MaxLifetime.String())
	}
	if p.MaxAttempts != nil {
		compare("claim.max_attempts", fmt.Sprint(*p.MaxAttempts), fmt.Sprint(c.MaxAttempts))
	}
	if len(differ) > 0 {
		e.warn("settings", "the daemon runs with "+strings.Join(differ, "; "), "restart it, or configure what it runs with: leases are judged by it")
	}
	switch {
	case p.Stranger == "":
	case p.Exclusive:
		e.warn("stranger", p.Stranger, api.OneJournal)
	default:
		e.ok("stranger", p.Stranger)
	}
}

func seconds(s float64) string { return time.Duration(s * float64(time.Second)).String() }

// Notion's limits for a connection, in requests per second on average: in most workspaces, and on
// the Business and Enterprise plans.
const (
	usualRate    = 3
	businessRate = 10
)

// rate checks the configured rate.
func (e *examination) rate() {
	const means = "Notion answers further requests with a pause, in which nothing is claimed"
	switch rate := e.Config.Notion.Rate; {
	case e.Config.Notion.BaseURL != config.Default().Notion.BaseURL: // another server's limit is unknown
	case rate > businessRate:
		e.warn("rate", fmt.Sprintf("notion.rate is %g requests a second, and Notion allows %d, or %d in Business and Enterprise: %s", rate, usualRate, businessRate, means),
			fmt.Sprintf("set it to %d, or to %d in such a workspace", usualRate, businessRate))
	case rate > usualRate:
		e.warn("rate", fmt.Sprintf("notion.rate is %g requests a second, which Notion allows in Business and Enterprise only, and %d elsewhere: %s", rate, usualRate, means),
			fmt.Sprintf("set it to %d unless the workspace is on such a plan", usualRate))
	}
}

// agents warns of names that differ only in case, among those in the configuration, on the board if
// a daemon answers, and of claims. Names are compared exactly, so each is a separate agent.
func (e *examination) agents(ctx context.Context) {
	names := make(map[string]bool)
	for _, a := range e.Config.Agents {
		names[a.Name] = true
	}
	for _, c := range e.live {
		names[c.Agent] = true
	}
	if e.status != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		// On failure the other names remain.
		list, _ := client.Do(ctx, e.Daemon, api.OpListTasks, api.ListTasksInput{})
		for _, t := range list.Tasks {
			names[t.Agent] = true
		}
	}
	groups := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		folded := strings.ToLower(name)
		groups[folded] = append(groups[folded], name)
	}
	for _, folded := range slices.Sorted(maps.Keys(groups)) {
		if group := groups[folded]; len(group) > 1 {
			e.warn("agents", fmt.Sprintf("%s differ in case only, and are %d agents: names are compared exactly, so one cannot claim or finish the other's tasks", quoted(group), len(group)),
				"use one of them everywhere: in `agents`, in --agent and DIBS_AGENT, and in claimed_by")
		}
	}
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(list, " and ")
}

// notify checks that the addresses of receivers can be read. It tells nobody.
func (e *examination) notify() {
	if len(e.Config.Notify) == 0 {
		return
	}
	receivers, err := notify.Open(e.Config.Notify, notify.Options{Log: silent})
	if err != nil {
		e.problem("notify", err.Error(), "correct it: the daemon does not start; then try dibs notify test")
		return
	}
	var names []string
	for _, r := range receivers {
		names = append(names, r.String())
	}
	for _, r := range e.Config.Notify {
		if r.URLFile != "" {
			e.looseFile("notify", r.URLFile, "in "+r.URLFile)
		}
	}
	e.ok("notify", strings.Join(names, ", ")+"; dibs notify test tries them")
}
