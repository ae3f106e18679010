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
	return a.changeCommand(change{
		verb:  "renew",
		short: "Keep a claim: begin its lease anew",
		long: "Keep a claim: begin its lease anew. While Notion cannot be reached, the lease ends when it did\n" +
			"before, which the answer says; the renewal is written once Notion is back.",
		do: func(ctx context.Context, daemon *client.Client, id, key string) (api.Claim, error) {
			return daemon.Renew(ctx, id, api.RenewRequest{Agent: a.agent}, key)
		},
		done: func(c api.Claim) string {
			if c.Detail != "" {
				return fmt.Sprintf("%s is still claimed%s; the renewal is noted, and written to Notion as soon as that works: %s",
					quoted(c.Task), forAnother(c.ExpiresAt, time.Now()), clean(c.Detail))
			}
			return "renewed " + quoted(c.Task) + forAnother(c.ExpiresAt, time.Now())
		},
	})
}
