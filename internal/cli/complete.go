package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

func (a *app) completeCommand() *cobra.Command {
	var summary string
	var used usedFlag
	var evidence []string
	return a.changeCommand(change{
		op:   api.OpComplete.Operation,
		long: "Say that the work is done: the task becomes COMPLETED, and the task log gets an entry.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&summary, "summary", "", "what was done, a `text`")
			cmd.Flags().StringArrayVar(&evidence, "evidence", nil, "what shows it, a `text`: a commit, a pull request, a command and its exit code; may be repeated")
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Complete(ctx, id, api.CompleteRequest{Agent: a.agent, Summary: summary, Evidence: evidence, Used: used.Used}, a.request)
		},
		done: func(c api.Claim) string {
			if c.Outcome == claim.EndReview { // claim.review
				return reviewed(c)
			}
			return "completed " + quoted(c.Task)
		},
	})
}
