package cli

import (
	"context"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) commentCommand() *cobra.Command {
	var body api.CommentRequest
	cmd := &cobra.Command{
		Use:   "comment TASK TEXT",
		Short: "Comment on a task",
		Long: "Put a comment on a task's page, signed with the agent's name. If Notion cannot be reached, the comment is\n" +
			"made as soon as it can be. The connection needs the capability to insert comments.\n" +
			"Exit code 3: there is no such task.",
		Example:           "  dibs comment T-3 \"half of it is done\" --agent Sandman --mention ada@example.com",
		Args:              arguments("TASK", "TEXT"),
		ValidArgsFunction: a.someTasks(api.TaskFilter{}).first,
		RunE: a.asking(func(cmd *cobra.Command, args []string, daemon *client.Client) error {
			agent, err := a.claimer()
			if err != nil {
				return err
			}
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			if strings.TrimSpace(args[1]) == "" {
				return usagef("the comment is empty: say something")
			}
			body.Agent, body.Text = agent, args[1]
			said, err := daemon.Comment(cmd.Context(), id, body, a.request)
			if err != nil {
				return err
			}
			return a.answer(said, "commented on "+quoted(said.Task)+accepted(said.Detail))
		}),
	}
	mentioning(cmd, &body.Mention)
	a.addRequestID(cmd)
	return cmd
}

func (a *app) askCommand() *cobra.Command {
	var to, text string
	cmd := a.changeCommand(change{
		op: api.OpAsk.Operation,
		long: "Ask people something: the question is put on the task's page as a comment, the task becomes BLOCKED, and\n" +
			"the claim is given up. dibs poll tells the agent when a person answers with a comment, or opens the task\n" +
			"again. The connection needs the capabilities to insert and to read comments.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&to, "to", "", "whom the question mentions, a `person` by name, e-mail address or Notion's id")
		},
		check: func(*cobra.Command) error {
			if strings.TrimSpace(text) == "" {
				return usagef("the question is empty: say what you want to know")
			}
			return nil
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return daemon.Ask(ctx, id, api.AskRequest{Agent: a.agent, Text: text, To: to}, a.request)
		},
		done: func(c api.Claim) string {
			return "asked about " + quoted(c.Task) + ", which is blocked until a person opens it"
		},
	})
	// The question is the first argument, before the claim.
	run := cmd.RunE
	cmd.Use, cmd.Args = "ask TEXT [CLAIM_OR_TASK]", arguments("TEXT", "[CLAIM_OR_TASK]")
	cmd.Example = "  dibs ask \"which of the two?\" --to ada@example.com --agent Sandman"
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return suggestions(a.ownTasks).complete(cmd, nil, begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text = args[0]
		return run(cmd, args[1:])
	}
	return cmd
}
