package cli

import (
	"fmt"
	"io"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) syncCommand() *cobra.Command {
	var body api.SyncRequest
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Read from Notion what has changed, now",
		Long: "Read from Notion what has changed, now. The daemon does so by itself as sync.interval says. With\n" +
			"--full it reads the whole board, as it does at its start and as schedule.full_sync says: that\n" +
			"finds tasks that were trashed, archived, moved or are no longer shared, and changed properties.",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			done, err := daemon.Sync(cmd.Context(), body, a.request)
			if err != nil {
				return err
			}
			return a.print(done, func(w io.Writer) {
				what := "what was edited"
				if done.Full {
					what = "the whole board"
				}
				row(w, fmt.Sprintf("read %s: %d tasks, %d of them changed, %d gone; %d in all",
					what, done.Read, done.Changed, done.Gone, done.Tasks))
			})
		}),
	}
	cmd.Flags().BoolVar(&body.Full, "full", false, "read the whole board")
	a.addRequestID(cmd)
	return cmd
}
