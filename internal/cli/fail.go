package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) failCommand() *cobra.Command {
	var reason, mention string
	var reopen bool
	return a.changeCommand(change{
		verb:  "fail",
		short: "Say that the work was tried and failed",
		long: "Say that the work was tried and failed: the task becomes BLOCKED, or OPEN with --reopen, and the\n" +
			"task log gets an entry. With notion.comments, the reason is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "what went wrong, a `text`")
			cmd.Flags().BoolVar(&reopen, "reopen", false, "let somebody else try")
			mentioning(cmd, &mention)
		},
		do: func(ctx context.Context, daemon *client.Client, id, key string) (api.Claim, error) {
			return daemon.Fail(ctx, id, api.FailRequest{Agent: a.agent, Reason: reason, Reopen: reopen, Mention: mention}, key)
		},
		done: func(c api.Claim) string {
			if reopen {
				return "failed " + quoted(c.Task) + ", open for others"
			}
			return "failed " + quoted(c.Task)
		},
	})
}
