package cli

import (
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) offerCommand() *cobra.Command {
	var body api.OfferRequest
	return a.handCommand("offer", "Hand a task to another agent",
		"Hand a task to another agent, one that the agent holds or that is open. The claim is given up, and\n"+
			"nobody but the other agent gets the task, until that one accepts or declines, or inbox.offer is over.",
		func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&body.To, "to", "", "to whom, an `agent`")
			cmd.Flags().StringVar(&body.Text, "text", "", "what to tell that agent with it, a `text`")
		},
		func(cmd *cobra.Command, h hand) error {
			if body.To == "" {
				return usagef("to whom? give --to AGENT")
			}
			body.Agent = h.agent
			offered, err := h.daemon.Offer(cmd.Context(), h.task, body, a.request)
			if err != nil {
				return err
			}
			a.sayUnknown(offered.Task, offered.Owed, "dibs show "+string(offered.Task.ID))
			line := quoted(offered.Task) + " is offered to " + clean(body.To)
			if offered.Offer != nil {
				line += lasting(offered.Offer.ExpiresAt, time.Now())
			}
			return a.answer(offered, line+accepted(offered.Detail))
		})
}

func (a *app) acceptCommand() *cobra.Command {
	var note string
	return a.handCommand("accept", "Claim a task that is offered",
		"Claim a task that is offered to the agent, or assigned to it. Exit code 3: not claimed.",
		func(cmd *cobra.Command) { cmd.Flags().StringVar(&note, "note", "", "a `text` for the record") },
		func(cmd *cobra.Command, h hand) error {
			a.document = true
			c, err := h.daemon.Accept(cmd.Context(), h.task, api.AcceptRequest{Agent: h.agent, Note: note}, a.request)
			if err != nil {
				return err
			}
			return a.grant(cmd.Context(), h.daemon, c, c)
		})
}

func (a *app) declineCommand() *cobra.Command {
	var reason string
	return a.handCommand("decline", "Give back a task that is offered",
		"Give back a task that is offered to the agent, or assigned to it: it is open to all again, and who\n"+
			"offered it is told why.",
		func(cmd *cobra.Command) { cmd.Flags().StringVar(&reason, "reason", "", "why, a `text`") },
		func(cmd *cobra.Command, h hand) error {
			done, err := h.daemon.Decline(cmd.Context(), h.task, api.DeclineRequest{Agent: h.agent, Reason: reason}, a.request)
			if err != nil {
				return err
			}
			a.sayUnknown(done.Task, done.Owed, "dibs show "+string(done.Task.ID))
			return a.answer(done, "declined "+quoted(done.Task)+accepted(done.Detail))
		})
}

// hand is the input of a command that hands a task over.
type hand struct {
	agent  string
	task   task.ID
	daemon *client.Client
}

// handCommand makes a command that hands one task over.
func (a *app) handCommand(verb, short, long string, flags func(*cobra.Command), run func(*cobra.Command, hand) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:               verb + " TASK",
		Short:             short,
		Long:              long,
		Args:              arguments("TASK"),
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
			return run(cmd, hand{agent, id, daemon})
		}),
	}
	flags(cmd)
	a.addRequestID(cmd)
	return cmd
}
