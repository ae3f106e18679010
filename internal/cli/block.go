package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) blockCommand() *cobra.Command {
	var reason, mention string
	var used usedFlag
	return a.changeCommand(change{
		op: api.OpBlock.Operation,
		long: "Say that the work cannot go on: the task becomes BLOCKED, until a person opens it again. With\n" +
			"notion.comments, the reason is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "what is in the way, a `text`")
			mentioning(cmd, &mention)
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Block(ctx, id, api.BlockRequest{Agent: a.agent, Reason: reason, Mention: mention, Used: used.Used}, a.request)
		},
		done: func(c api.Claim) string { return "blocked " + quoted(c.Task) },
	})
}
