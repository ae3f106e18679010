package worklog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"

	"golang.org/x/sync/errgroup"
)

const (
	// batch is how many entries one run takes from the outbox.
	batch = 32
	// parallel is how many of them are on their way at a time.
	parallel = 4

	// firstLookup is when an entry of unknown fate is first looked up, and
	// lookupEvery how long until the next time.
	firstLookup = 5 * time.Second
	lookupEvery = 30 * time.Second
	// doubt is how long an entry that cannot be found may still appear: Notion
	// gives up on a request after a minute, and its queries have been seen two
	// minutes behind.
	doubt = 3 * time.Minute

	// An entry that was refused, or a log that cannot be reached, is tried
	// again after these, doubling.
	minBackoff = 15 * time.Second
	maxBackoff = 10 * time.Minute
)

// Outbox is the durable queue of entries owed to Notion.
type Outbox interface {
	// NextOutbox returns the items owed to the given logs that may be worked on
	// now, oldest first.
	NextOutbox(ctx context.Context, now time.Time, limit int, logs ...claim.Log) ([]Item, error)
	// NextOutboxAt says when the first item owed to the given logs may be worked
	// on; false if there is none.
	NextOutboxAt(ctx context.Context, logs ...claim.Log) (time.Time, bool, error)
	// MarkSending notes that item is about to be sent.
	MarkSending(ctx context.Context, item Item, at time.Time) error
	// MarkInDoubt notes that item was sent and its fate is unknown.
	MarkInDoubt(ctx context.Context, item Item, notBefore time.Time, why error) error
	// Retry notes that item is not in Notion.
	Retry(ctx context.Context, item Item, notBefore time.Time, why error) error
	// Delivered notes that item is in Notion.
	Delivered(ctx context.Context, item Item, at time.Time) error
}

// Item is an entry that is owed to a log.
type Item struct {
	Entry claim.Event
	Log   claim.Log
	// InDoubt is set if the item was sent and may be in Notion.
	InDoubt bool
	Tries   int       // how often it was sent
	SentAt  time.Time // when it was last sent; zero for never
}

// Writer is one log database. Its errors are *claim.StoreError.
type Writer interface {
	// Create adds the entry, in one request that is sent at most once.
	Create(ctx context.Context, e Entry) error
	// Find reports whether the log has an entry of that id.
	Find(ctx context.Context, id string) (bool, error)
}

// Drainer delivers the outbox. One run at a time.
type Drainer struct {
	outbox Outbox
	logs   map[claim.Log]Writer
	log    *slog.Logger

	mu      sync.Mutex
	backoff map[claim.Log]backoff
}

// backoff keeps a log that fails from being asked over and over.
type backoff struct {
	failures int
	until    time.Time
}

// NewDrainer returns a drainer for the given logs.
func NewDrainer(outbox Outbox, logs map[claim.Log]Writer, log *slog.Logger) *Drainer {
	return &Drainer{outbox: outbox, logs: logs, log: log, backoff: make(map[claim.Log]backoff)}
}

// RunOnce delivers what may be delivered now, and returns how many entries that
// were. What Notion refuses waits in the outbox and fails nothing else.
func (d *Drainer) RunOnce(ctx context.Context) (delivered int, err error) {
	for {
		items, err := d.outbox.NextOutbox(ctx, time.Now(), batch, d.open(time.Now())...)
		if err != nil {
			return delivered, err
		}
		var mu sync.Mutex
		worked := 0
		group, gctx := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for _, item := range items {
			group.Go(func() error {
				ok, err := d.deliver(gctx, item)
				mu.Lock()
				defer mu.Unlock()
				worked++
				if ok {
					delivered++
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return delivered, err
		}
		if worked < batch {
			return delivered, nil
		}
	}
}

// NextAt returns when there may be something to deliver; false if nothing is
// owed to a log that takes entries at present or will again.
func (d *Drainer) NextAt(ctx context.Context) (next time.Time, ok bool, err error) {
	now := time.Now()
	next, ok, err = d.outbox.NextOutboxAt(ctx, d.open(now)...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.backoff {
		if b.until.After(now) && (!ok || b.until.Before(next)) {
			next, ok = b.until, true
		}
	}
	return next, ok, err
}

// open returns the logs that are not waiting after repeated failures.
func (d *Drainer) open(now time.Time) []claim.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	var logs []claim.Log
	for log := range d.logs {
		if !now.Before(d.backoff[log].until) {
			logs = append(logs, log)
		}
	}
	return logs
}

// deliver takes one item as far as it goes now. The error is the outbox's own.
func (d *Drainer) deliver(ctx context.Context, item Item) (delivered bool, err error) {
	writer := d.logs[item.Log]
	if !slices.Contains(d.open(time.Now()), item.Log) {
		return false, nil // it began to wait while this run was under way
	}
	if item.InDoubt {
		return d.lookUp(ctx, writer, item)
	}
	if err := d.outbox.MarkSending(ctx, item, time.Now()); err != nil {
		return false, err
	}
	err = writer.Create(ctx, NewEntry(item.Entry, item.Log))
	// What was sent must be noted even if the daemon is stopping.
	note := context.WithoutCancel(ctx)
	var se *claim.StoreError
	switch {
	case err == nil, errors.As(err, &se) && se.Landed == claim.LandedYes:
		d.succeeded(item.Log)
		return true, d.outbox.Delivered(note, item, time.Now())
	case ctx.Err() != nil && errors.As(err, &se) && se.Landed == claim.LandedNo:
		return false, d.outbox.Retry(note, item, time.Now(), nil) // the daemon is stopping
	case errors.As(err, &se) && se.Landed == claim.LandedNo:
		return false, d.outbox.Retry(note, item, d.failed(item, err), err)
	}
	d.log.Info("the fate of a log entry is unknown; it will be looked up", "log", item.Log, "entry", item.Entry.ID, "error", err)
	return false, d.outbox.MarkInDoubt(note, item, time.Now().Add(firstLookup), err)
}

// lookUp settles an entry whose fate is unknown. It is sent again only when it
// could not be found after any request for it must have come to an end.
func (d *Drainer) lookUp(ctx context.Context, writer Writer, item Item) (delivered bool, err error) {
	found, err := writer.Find(ctx, item.Entry.ID)
	now := time.Now()
	switch {
	case err != nil:
		return false, d.outbox.MarkInDoubt(context.WithoutCancel(ctx), item, d.failed(item, err), err)
	case found:
		d.succeeded(item.Log)
		return true, d.outbox.Delivered(ctx, item, now)
	case now.Sub(item.SentAt) < doubt:
		return false, d.outbox.MarkInDoubt(ctx, item, now.Add(lookupEvery), errors.New("not found yet"))
	}
	return false, d.outbox.Retry(ctx, item, now, errors.New("the entry did not arrive; it is sent again"))
}

func (d *Drainer) succeeded(log claim.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.backoff, log)
}

// failed notes a failure and returns when the item may be tried again. An
// entry that fails alone waits alone; when several in a row fail, the whole log
// waits.
func (d *Drainer) failed(item Item, cause error) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.backoff[item.Log]
	b.failures++
	wait := min(minBackoff<<min(max(b.failures-1, item.Tries), 10), maxBackoff)
	var se *claim.StoreError
	if errors.As(cause, &se) && se.RetryAfter > 0 {
		wait = se.RetryAfter // who says so knows best when Notion will be there
	}
	until := time.Now().Add(wait)
	if b.failures == 1 || b.failures%10 == 0 {
		d.log.Warn("a log entry waits in the outbox", "log", item.Log, "entry", item.Entry.ID, "retry_in", wait, "error", cause)
	}
	if b.failures >= parallel {
		b.until = until
	}
	d.backoff[item.Log] = b
	return until
}
