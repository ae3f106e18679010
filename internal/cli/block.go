package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) blockCommand() *cobra.Command {
	var reason string
	return a.changeCommand(change{
		verb:  "block",
		short: "Say that the work cannot go on",
		long:  "Say that the work cannot go on: the task becomes BLOCKED, until a person opens it again.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "what is in the way, a `text`")
		},
		do: func(ctx context.Context, daemon *client.Client, id, key string) (api.Claim, error) {
			return daemon.Block(ctx, id, api.StopRequest{Agent: a.agent, Reason: reason}, key)
		},
		done: func(c api.Claim) string { return "blocked " + quoted(c.Task) },
	})
}
