package cli

import (
	"io"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) sendCommand() *cobra.Command {
	var body api.MessageRequest
	cmd := &cobra.Command{
		Use:   "send TEXT",
		Short: "Say something to an agent",
		Long: "Say something to an agent, or to all: it is told at its next dibs poll, and the message becomes a\n" +
			"row of the Mesh Communication Log.",
		Example: "  dibs send --agent Sandman --to Oracle \"the API has changed\"\n" +
			"  dibs send --agent Sandman --to all \"deploying at 5\"",
		Args: arguments("TEXT"),
		RunE: a.asking(func(cmd *cobra.Command, args []string, daemon *client.Client) error {
			if err := a.checkAgent(); err != nil {
				return err
			}
			if body.To == "" {
				return usagef("to whom? give --to AGENT, or --to all")
			}
			if strings.TrimSpace(args[0]) == "" {
				return usagef("the message is empty: say something")
			}
			body.From, body.Text = a.agent, args[0]
			sent, err := daemon.Send(cmd.Context(), body, a.request)
			if err != nil {
				return err
			}
			return a.print(sent, func(w io.Writer) {
				to := clean(strings.Join(sent.Agents, ", "))
				if to == "" {
					to = "nobody here, as no agent is known yet; it is in the Mesh Communication Log"
				}
				row(w, "sent to "+to)
			})
		}),
	}
	cmd.Flags().StringVar(&body.To, "to", "", "whom to tell, an `agent`, or all")
	a.addRequestID(cmd)
	return cmd
}
