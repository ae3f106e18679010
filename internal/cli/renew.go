package cli

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) renewCommand() *cobra.Command {
	var keeper keeperFlags
	var used usedFlag
	var progress string
	return a.changeCommand(change{
		op: api.OpRenew.Operation,
		flags: func(cmd *cobra.Command) {
			keeper.add(cmd)
			used.add(cmd)
			cmd.Flags().StringVar(&progress, "progress", "", "how far the work is, a `text` of one line")
		},
		check: keeper.check,
		long: "Say that you are still at work: the claim lasts a whole lease from now on. While Notion cannot be\n" +
			"reached it ends when it would have, as the answer says, unless Notion is back before that. --progress is\n" +
			"shown with the claim, on the board and in dibs claims, show and whoami; Notion is not told.",
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Renew(ctx, id, api.RenewRequest{Agent: a.agent, Progress: progress, Keeper: keeper.asked, Used: used.Used}, a.request)
		},
		done: func(c api.Claim) string {
			if c.Detail != "" {
				return fmt.Sprintf("%s is still yours%s; the renewal is noted, and written to Notion as soon as that works: %s",
					quoted(c.Task), lasting(c.ExpiresAt, time.Now()), clean(c.Detail))
			}
			return quoted(c.Task) + " is yours" + lasting(c.ExpiresAt, time.Now())
		},
	})
}
