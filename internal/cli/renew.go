package cli

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) renewCommand() *cobra.Command {
	return a.changeCommand(change{
		verb:  "renew",
		short: "Keep a claim: begin its lease anew",
		long:  "Keep a claim: begin its lease anew.",
		do: func(ctx context.Context, daemon *client.Client, id, key string) (api.Claim, error) {
			return daemon.Renew(ctx, id, api.RenewRequest{Agent: a.agent}, key)
		},
		done: func(c api.Claim) string {
			return "renewed " + quoted(c.Task) + forAnother(c.ExpiresAt, time.Now())
		},
	})
}
