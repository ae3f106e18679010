package cli

import (
	"fmt"
	"io"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) sweepCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Reopen tasks whose claim is stale, now",
		Long: "Reopen tasks whose claim is stale, now, and write onto the cards of tasks that can never become ready\n" +
			"why that is, once for each reason. The daemon does so by itself as schedule.sweep says.",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			done, err := daemon.SweepFor(cmd.Context(), api.SweepRequest{Note: note}, a.request)
			if err != nil {
				return err
			}
			return a.print(done, func(w io.Writer) {
				if len(done.Swept)+len(done.Told) == 0 {
					row(w, "nothing to sweep")
				}
				for _, t := range done.Told {
					row(w, "wrote onto "+quoted(t)+" why it can never become ready")
				}
				for _, s := range done.Swept {
					if s.Blocked {
						row(w, fmt.Sprintf("blocked %s, which %s had claimed: it was tried as often as claim.max_attempts allows",
							quoted(api.TaskRef{ID: s.Task, Title: s.Title}), clean(s.Agent)))
						continue
					}
					row(w, fmt.Sprintf("reopened %s, which %s had claimed", quoted(api.TaskRef{ID: s.Task, Title: s.Title}), clean(s.Agent)))
				}
			})
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, or who asks, a `text` for the record")
	a.addRequestID(cmd)
	return cmd
}
