package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

// syncPollInterval is how often the progress of a sync is polled.
const syncPollInterval = 250 * time.Millisecond

func (a *app) syncCommand() *cobra.Command {
	var body api.SyncRequest
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Read from Notion what has changed, now",
		Long: "Read from Notion what has changed, now. The daemon does so by itself as sync.interval says. With\n" +
			"--full it reads the whole board, as it does at its start and as schedule.full_sync says: that\n" +
			"finds tasks that were trashed, archived, moved or are no longer shared, and changed properties.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			stop := a.watchSync(cmd.Context(), daemon)
			done, err := daemon.Sync(cmd.Context(), body, a.request)
			stop()
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
		},
	}
	cmd.Flags().BoolVar(&body.Full, "full", false, "read the whole board")
	a.addRequestID(cmd)
	return cmd
}

// watchSync shows the progress of a full sync until it is stopped.
func (a *app) watchSync(ctx context.Context, daemon *client.Client) (stop func()) {
	if !a.watched() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		bar := a.progress(-1, "reading tasks")
		defer bar.Finish()
		for tick := time.NewTicker(syncPollInterval); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			s, err := daemon.Status(ctx)
			if err != nil || s.Mirror.Syncing == nil {
				continue
			}
			if p := s.Mirror.Syncing; p.Percent != nil {
				bar.ChangeMax(100)
				bar.Set(*p.Percent)
			} else {
				bar.Set(p.Read)
			}
		}
	}()
	return func() {
		cancel()
		<-gone
	}
}
