package daemon

import (
	"context"
	"time"

	"dibs/internal/journal"
	"dibs/internal/worklog"
)

// deliveries is the outbox. It tells when something has become of an entry.
type deliveries struct {
	*journal.Journal
	tell func()
}

func (o deliveries) MarkInDoubt(ctx context.Context, item worklog.Item, notBefore time.Time, why error) error {
	defer o.tell()
	return o.Journal.MarkInDoubt(ctx, item, notBefore, why)
}

func (o deliveries) Retry(ctx context.Context, item worklog.Item, notBefore time.Time, why error) error {
	defer o.tell()
	return o.Journal.Retry(ctx, item, notBefore, why)
}

func (o deliveries) Delivered(ctx context.Context, item worklog.Item, at time.Time) error {
	defer o.tell()
	return o.Journal.Delivered(ctx, item, at)
}
