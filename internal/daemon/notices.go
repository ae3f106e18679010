package daemon

import (
	"context"
	"os"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/notify"
)

// openReceivers makes a queue for each receiver of notices.
func (d *works) openReceivers(ctx context.Context) error {
	receivers, err := notify.Open(d.config.Notify, notify.Options{
		Transport: d.outside, Output: os.Stderr, Environment: config.Environment(d.config.Journal.Shared()), Log: d.log,
	})
	if err != nil {
		return err
	}
	wants := make(map[outbox.Kind]func(claim.Fact) bool)
	for _, r := range receivers {
		wants[r.Kind()] = r.Wants
		d.queues = append(d.queues, outbox.New(outbox.Config{
			Kind: r.Kind(), Ledger: d.journal, Entries: r, Notion: always{}, To: r.Terms(), Log: d.log,
		}))
	}
	return d.journal.SetReceivers(ctx, wants)
}

// always is the reach of what does not depend on Notion.
type always struct{}

func (always) Down() error           { return nil }
func (always) Back() <-chan struct{} { return nil }
func (always) Await()                {}
