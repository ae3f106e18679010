package cli

import (
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) claimsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "List the claims that are held",
		Long: "List the claims that are held: on which tasks, by whom, and until when; in a cluster, through whichever\n" +
			"member. --agent limits the list to one agent.",
		Example: "  dibs claims --agent Sandman",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			agent, err := a.only(cmd)
			if err != nil {
				return err
			}
			list, err := daemon.Claims(cmd.Context(), agent)
			if err != nil {
				return err
			}
			if !a.json && !cmd.Flags().Changed("limit") {
				limit = defaultLimit
			}
			shown, left := limited(list.Claims, limit)
			if a.json {
				return writeJSON(a.stdout, api.Claims{Claims: shown})
			}
			switch {
			case len(list.Claims) > 0:
			case agent != "":
				a.say("%s holds no claim through this daemon.", clean(agent))
			default:
				a.say("Nobody holds a claim through this daemon.")
			}
			err = a.list(nil, func(t *table) { showClaims(t, shown, time.Now()) })
			a.more(left)
			return err
		}),
	}
	addLimit(cmd, &limit)
	return cmd
}

func showClaims(t *table, claims []api.Claim, now time.Time) {
	if len(claims) == 0 {
		return
	}
	t.whole = 4
	used := anyUsed(claims, func(c api.Claim) *api.Usage { return c.Usage })
	heads := []string{"TASK", "AGENT", "UNTIL", "CLAIM", "TITLE", "PROGRESS"}
	if used {
		heads = append(heads, "USED")
	}
	t.head(heads...)
	for _, c := range claims {
		row := []cell{plain(handle(c.Task)), plain(clean(c.Agent)), lasts(c, now), plain(clean(string(c.ID))).in(faint), plain(short(c.Task.Title)), plain(beginning(c.Progress, maxText))}
		if used {
			row = append(row, plain(spent(c.Usage)))
		}
		t.add(row...)
	}
}

// lasts returns the cell that says until when a claim lasts.
func lasts(c api.Claim, now time.Time) cell {
	switch {
	case c.State == "finishing":
		return plain(clean(string(c.Outcome)) + ", not yet in Notion").in(yellow)
	case !c.ExpiresAt.After(now):
		return plain(clock(c.ExpiresAt.Time, now) + ", over").in(red)
	}
	return plain(clock(c.ExpiresAt.Time, now) + ", in " + length(c.ExpiresAt.Sub(now)))
}
