package cli

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) reviewCommand() *cobra.Command {
	var note, mention string
	var used usedFlag
	return a.changeCommand(change{
		op: api.OpReview.Operation,
		long: "Say that the work is done, for a person to decide: the task gets the status that tasks.statuses.review\n" +
			"names, the claim is over, and the task log gets an entry. A person sets it to COMPLETED, or opens it\n" +
			"again; until then nobody can claim it, and what depends on it waits. With notion.comments, the note\n" +
			"is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&note, "note", "", "what was done and what is to be decided, a `text`")
			mentioning(cmd, &mention)
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Review(ctx, id, api.ReviewRequest{Agent: a.agent, Note: note, Mention: mention, Used: used.Used}, a.request)
		},
		done: reviewed,
	})
}

func reviewed(c api.Claim) string { return quoted(c.Task) + " waits for review" }
