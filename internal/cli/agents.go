package cli

import (
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

// maxDays is the largest value of --days.
const maxDays = 30

func (a *app) agentsCommand() *cobra.Command {
	days := 7
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents seen lately, and how they do",
		Long: "List the agents seen in the last days, the one last seen first: what each holds, how many tasks it has\n" +
			"completed today, how long it had those of the last seven days (the median), how much waits in its inbox,\n" +
			"and what it reported to have used. An agent is seen when it asks for a task, renews, polls or finishes.\n" +
			"--agent limits the list to one.",
		Example: "  dibs agents --days 1",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			if days < 1 || days > maxDays {
				return usagef("--days %d: want 1 to %d", days, maxDays)
			}
			only, err := a.only(cmd)
			if err != nil {
				return err
			}
			list, err := daemon.Agents(cmd.Context(), days)
			if err != nil {
				return err
			}
			if only != "" {
				list.Agents = slices.DeleteFunc(list.Agents, func(s api.AgentSummary) bool { return s.Agent != only })
			}
			switch since := count(int64(days), "day"); {
			case len(list.Agents) > 0:
			case only != "":
				a.say("%s was not seen here within %s.", clean(only), since)
			default:
				a.say("Nobody was seen here within %s.", since)
			}
			return a.list(list, func(t *table) { showAgents(t, list.Agents, time.Now()) })
		}),
	}
	cmd.Flags().IntVar(&days, "days", days, "only agents seen in that many days, at most 30")
	return cmd
}

func showAgents(t *table, agents []api.AgentSummary, now time.Time) {
	if len(agents) == 0 {
		return
	}
	used := anyUsed(agents, func(s api.AgentSummary) *api.Usage { return s.Usage })
	heads := []string{"AGENT", "LAST SEEN", "TODAY", "MEDIAN", "INBOX", "HOLDS"}
	if used {
		heads = append(heads, "USED TODAY", "USED IN ALL")
	}
	t.head(heads...)
	for _, s := range agents {
		median, holds := "-", "-"
		if s.MedianSeconds != nil {
			median = took(*s.MedianSeconds)
		}
		if len(s.Claims) > 0 {
			holds = heldUntil(s.Claims[0], now)
		}
		if more := len(s.Claims) - 1; more > 0 {
			holds += fmt.Sprintf(", and %d more", more)
		}
		row := []cell{plain(clean(s.Agent)), plain(ago(s.LastSeen.Time, now)), plain(fmt.Sprint(s.DoneToday)),
			plain(median), plain(fmt.Sprint(s.Inbox)), plain(holds)}
		if used {
			row = append(row, plain(spent(s.UsageToday)), plain(spent(s.Usage)))
		}
		t.add(row...)
	}
}

// took formats a duration in a few characters: in seconds up to two minutes.
func took(s float64) string {
	if d := seconds(s); d >= 2*time.Minute {
		return length(d)
	}
	if s < 10 && s > 0 {
		return fmt.Sprintf("%.1fs", s)
	}
	return fmt.Sprintf("%.0fs", s)
}
