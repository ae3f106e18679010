package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

func (a *app) waitCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "wait [CLAIM_OR_TASK]",
		Short: "Wait until something happens to a claim",
		Long: "Wait until something happens to a claim or its task: somebody edited its title, priority, timeout or\n" +
			"dependencies, the lease is about to end, the claim is over. The claim is named by its id or its task's id or URL; without one, it is the\n" +
			"agent's only claim. Exit code 3: nothing happened in that time; 4: the claim is over, and no longer\n" +
			"the agent's.",
		Example: "  dibs wait --agent Sandman --wait 10m",
		Args:    arguments("[CLAIM_OR_TASK]"),
		RunE: a.asking(func(cmd *cobra.Command, args []string, daemon *client.Client) error {
			id, err := a.own(args)
			if err != nil {
				return err
			}
			if wait < 0 {
				return usagef("--wait %v: want a time from 0s", wait)
			}
			found, err := daemon.Lookup(cmd.Context(), id, a.agent)
			if err != nil {
				return err
			}
			over := time.Now().Add(cmp.Or(wait, 1<<62)) // without --wait, for ever
			for found.Event == nil && found.State != claim.Ended && time.Now().Before(over) {
				found, err = daemon.Watch(cmd.Context(), string(found.ID), found.Agent, api.EventsFuture, min(api.MaxWait, time.Until(over)))
				if err != nil {
					return err
				}
			}
			return a.waited(found)
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long at the most (default: as long as it takes)")
	return cmd
}

// waited says what happened to a claim.
func (a *app) waited(c api.Claim) error {
	err := a.print(c, func(w io.Writer) {
		switch {
		case c.State == claim.Ended:
			row(w, fmt.Sprintf("the claim on %s is over: %s", quoted(c.Task), clean(cmp.Or(c.Detail, string(c.Outcome)))))
		case c.Event != nil:
			row(w, fmt.Sprintf("%s: %s, %s", quoted(c.Task), clean(string(c.Event.Kind)), aboutEvent(*c.Event)))
		default:
			row(w, fmt.Sprintf("nothing happened to %s", quoted(c.Task)))
		}
	})
	switch {
	case err != nil:
		return err
	case c.State == claim.Ended && !slices.Contains(ownEndings, c.Outcome):
		return ended{api.ExitLost}
	case c.State != claim.Ended && c.Event == nil:
		return ended{api.ExitNotClaimed}
	}
	return nil
}

// ownEndings are the endings that the agent itself causes.
var ownEndings = []claim.Ending{claim.EndCompleted, claim.EndReview, claim.EndReleased, claim.EndBlocked, claim.EndFailed}
