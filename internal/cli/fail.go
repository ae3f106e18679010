package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

func (a *app) failCommand() *cobra.Command {
	var reason, mention string
	var used usedFlag
	var reopen bool
	return a.changeCommand(change{
		op: api.OpFail.Operation,
		long: "Say that the work was tried and failed: the task becomes BLOCKED, or what tasks.statuses.failed names,\n" +
			"or OPEN with --reopen, unless it was tried as often as claim.max_attempts allows; and the task log gets\n" +
			"an entry. With notion.comments, the reason is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "what went wrong, a `text`")
			cmd.Flags().BoolVar(&reopen, "reopen", false, "let somebody else try")
			mentioning(cmd, &mention)
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Fail(ctx, id, api.FailRequest{Agent: a.agent, Reason: reason, Reopen: reopen, Mention: mention, Used: used.Used}, a.request)
		},
		done: func(c api.Claim) string {
			line := "failed " + quoted(c.Task)
			switch {
			case !reopen || c.State == claim.Finishing:
				return line
			case c.Detail == "":
				return line + ", open for others"
			}
			return line + ", " + clean(c.Detail)
		},
	})
}
