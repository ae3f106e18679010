package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) releaseCommand() *cobra.Command {
	var reason string
	return a.changeCommand(change{
		op:   api.OpRelease.Operation,
		long: "Give a task back: it becomes OPEN, for somebody else to claim.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "why, a `text`")
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Release(ctx, id, api.StopRequest{Agent: a.agent, Reason: reason}, a.request)
		},
		done: func(c api.Claim) string { return "released " + quoted(c.Task) },
	})
}
