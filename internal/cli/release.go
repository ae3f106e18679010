package cli

import (
	"context"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

func (a *app) releaseCommand() *cobra.Command {
	var reason, by string
	var used usedFlag
	return a.changeCommand(change{
		op: api.OpRelease.Operation,
		long: "Give a task back: it becomes OPEN, for somebody else to claim.\n\n" +
			"With --by, a person takes it back from its agent, whoever that is. The agent is told that it lost the\n" +
			"claim, by whom and why, and is not offered the task for an hour; it may claim it by name. The name\n" +
			"signs the note on the card, beside the user of the machine if that is another one.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&by, "by", "", "who takes the task back from its agent, a `name`")
			cmd.Flags().StringVar(&reason, "reason", "", "why, a `text`")
			used.add(cmd)
		},
		check: func(cmd *cobra.Command) error {
			if cmd.Flags().Changed("by") && by == "" {
				return usagef("--by is empty: name who takes the task back")
			}
			return nil
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			agent := a.agent
			if by != "" && id != api.OnlyClaim { // DIBS_AGENT says nothing about whose task it is
				agent = ""
			}
			return daemon.Release(ctx, id, api.StopRequest{Agent: agent, By: by, Reason: reason, Used: used.Used}, a.request)
		},
		done: func(c api.Claim) string {
			if c.Outcome == claim.EndLost {
				return fmt.Sprintf("took %s back from %s", quoted(c.Task), clean(c.Agent))
			}
			return "released " + quoted(c.Task)
		},
	})
}
