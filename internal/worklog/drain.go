package worklog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/owed"

	"golang.org/x/sync/errgroup"
)

const (
	// batch is how many entries one run takes from the outbox at a time.
	batch = 32
	// parallel is how many of them are on their way at a time.
	parallel = 4
)

// Drainer delivers what the outbox owes to one log. One run at a time; the other methods
// are safe for concurrent use.
//
// No time that it goes by jumps when the machine's clock is set, see owed.Doubts: nor do those that
// it gives to the outbox. What an earlier process stored waits for no longer than anything does.
type Drainer struct {
	outbox Outbox
	log    claim.Log
	writer Writer
	logger *slog.Logger
	doubts *owed.Doubts

	hurried bool // what an earlier process left has been brought near
	troubles
}

// NewDrainer returns a drainer for one log, which the writer writes.
func NewDrainer(outbox Outbox, log claim.Log, writer Writer, logger *slog.Logger) *Drainer {
	return &Drainer{
		outbox: outbox, log: log, writer: writer, logger: logger, doubts: owed.NewDoubts(),
		troubles: troubles{entries: make(map[string]*trouble), failing: make(map[string]bool)},
	}
}

// now is the time that does not jump.
func (d *Drainer) now() time.Time { return d.doubts.Now() }

// RunOnce delivers what may be delivered now, and returns how many entries that
// were. What Notion does not take waits in the outbox, and no other entry waits for it,
// unless several are not taken and none is: then the log waits.
func (d *Drainer) RunOnce(ctx context.Context) (delivered int, err error) {
	if !d.hurried {
		if err := d.outbox.Hurry(ctx, d.now().Add(maxBackoff), d.log); err != nil {
			return 0, err
		}
		d.hurried = true
	}
	for {
		if d.waits(d.now()) {
			return delivered, nil
		}
		items, err := d.outbox.NextOutbox(ctx, d.now(), batch, d.log)
		if err != nil {
			return delivered, err
		}
		var mu sync.Mutex
		group, gctx := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for _, item := range items {
			group.Go(func() error {
				ok, err := d.deliver(gctx, item)
				mu.Lock()
				defer mu.Unlock()
				if ok {
					delivered++
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return delivered, err
		}
		if len(items) < batch {
			return delivered, nil
		}
	}
}

// NextAt returns when there may be something to deliver; false if nothing is owed.
func (d *Drainer) NextAt(ctx context.Context) (next time.Time, ok bool, err error) {
	now := d.now()
	if until := d.waitsUntil(); until.After(now) {
		return time.Now().Add(until.Sub(now)), true, nil
	}
	next, ok, err = d.outbox.NextOutboxAt(ctx, d.log)
	return time.Now().Add(max(0, next.Sub(now))), ok, err
}

// deliver takes one item as far as it goes now. The error is the outbox's own.
func (d *Drainer) deliver(ctx context.Context, item Item) (delivered bool, err error) {
	if d.waits(d.now()) {
		return false, nil // the log began to wait while this run was under way
	}
	entry := NewEntry(item.Entry, item.Log)
	if item.InDoubt {
		return d.lookUp(ctx, item, entry)
	}
	noted := d.now()
	if err := d.outbox.MarkSending(ctx, item, noted); err != nil {
		return false, err
	}
	if d.now().Sub(noted) > owed.Late {
		return false, d.outbox.Retry(ctx, item, d.now(), nil)
	}
	err = d.writer.Create(ctx, entry)
	// What was sent must be noted even if the daemon is stopping.
	note := context.WithoutCancel(ctx)
	switch fate := d.doubts.Sent(entry.ID, err); {
	case fate == owed.Arrived:
		return true, d.arrived(note, item)
	case fate == owed.Gone:
		return false, d.giveUp(note, item, entry, err)
	case fate == owed.Absent && ctx.Err() != nil:
		return false, d.outbox.Retry(note, item, d.now(), nil) // the daemon is stopping
	case fate == owed.Absent:
		return false, d.outbox.Retry(note, item, d.refused(entry, err), err)
	}
	d.logger.Info("the fate of a log entry is unknown; it will be looked up", "log", item.Log, "entry", item.Entry.ID, "error", err)
	d.unanswered(entry, err)
	return false, d.outbox.MarkInDoubt(note, item, d.now().Add(owed.FirstLookup), err)
}

// Errors of entries of which it is not known whether they have arrived.
var (
	ErrCutOff   = errors.New("the daemon stopped while it was being sent")
	ErrNotFound = errors.New("not found yet")
)

// lookUp settles an entry whose fate is unknown.
func (d *Drainer) lookUp(ctx context.Context, item Item, entry Entry) (delivered bool, err error) {
	found, err := d.writer.Find(ctx, entry)
	switch fate, _ := d.doubts.Sought(entry.ID, found, err); {
	case fate == owed.Gone:
		return false, d.giveUp(context.WithoutCancel(ctx), item, entry, err)
	case fate == owed.Arrived:
		return true, d.arrived(ctx, item)
	case fate == owed.Absent:
		return false, d.outbox.Retry(ctx, item, d.missing(entry), errors.New("the entry did not arrive; it is sent again"))
	case err != nil:
		return false, d.outbox.MarkInDoubt(context.WithoutCancel(ctx), item, d.refused(entry, err), err)
	}
	return false, d.outbox.MarkInDoubt(ctx, item, d.now().Add(owed.LookupEvery), ErrNotFound)
}

// arrived notes that an item is in Notion.
func (d *Drainer) arrived(ctx context.Context, item Item) error {
	id := entryID(item.Entry)
	d.taken(id)
	d.doubts.Settled(id)
	return d.outbox.Delivered(ctx, item, time.Now())
}

// giveUp notes that an item will never be in Notion.
func (d *Drainer) giveUp(ctx context.Context, item Item, entry Entry, gone error) error {
	d.logger.Warn("a log entry is given up", "log", item.Log, "entry", entry.ID, "title", entry.Title, "error", gone)
	return d.arrived(ctx, item)
}
