package worklog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"

	"golang.org/x/sync/errgroup"
)

const (
	// batch is how many entries one run takes from the outbox at a time.
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
	// late is how long after it was noted that an entry is being sent it may still be sent:
	// whoever stood still for longer may be taken for dead by another daemon, which looks
	// the entry up, and sends it itself when it is in doubt no more.
	late = time.Minute
)

// Drainer delivers what the outbox owes to one log. One run at a time; the other methods
// are safe for concurrent use.
//
// No time that it goes by jumps when the machine's clock is set. All that it gives to the
// outbox are its own: the time of its making and what has passed since. Of what an
// earlier process stored it does not know by which clock that was: such entries wait for
// no longer than any does, and their doubt begins anew.
type Drainer struct {
	outbox Outbox
	log    claim.Log
	writer Writer
	logger *slog.Logger
	began  time.Time

	hurried bool // what an earlier process left has been brought near
	troubles
}

// NewDrainer returns a drainer for one log, which the writer writes.
func NewDrainer(outbox Outbox, log claim.Log, writer Writer, logger *slog.Logger) *Drainer {
	return &Drainer{
		outbox: outbox, log: log, writer: writer, logger: logger, began: time.Now(),
		troubles: troubles{entries: make(map[string]*trouble), failing: make(map[string]bool)},
	}
}

// now is the time that does not jump.
func (d *Drainer) now() time.Time { return d.began.Add(time.Since(d.began)) }

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
	d.sending(entry, noted)
	if err := d.outbox.MarkSending(ctx, item, noted); err != nil {
		return false, err
	}
	if d.now().Sub(noted) > late {
		return false, d.outbox.Retry(ctx, item, d.now(), nil)
	}
	err = d.writer.Create(ctx, entry)
	// What was sent must be noted even if the daemon is stopping.
	note := context.WithoutCancel(ctx)
	var se *claim.StoreError
	var gone *GoneError
	switch {
	case err == nil, errors.As(err, &se) && se.Landed == claim.LandedYes:
		return true, d.arrived(note, item)
	case errors.As(err, &gone):
		return false, d.giveUp(note, item, entry, gone)
	case ctx.Err() != nil && errors.As(err, &se) && se.Landed == claim.LandedNo:
		return false, d.outbox.Retry(note, item, d.now(), nil) // the daemon is stopping
	case errors.As(err, &se) && se.Landed == claim.LandedNo:
		return false, d.outbox.Retry(note, item, d.refused(entry, err), err)
	}
	d.logger.Info("the fate of a log entry is unknown; it will be looked up", "log", item.Log, "entry", item.Entry.ID, "error", err)
	d.unanswered(entry, err)
	return false, d.outbox.MarkInDoubt(note, item, d.now().Add(firstLookup), err)
}

// Errors of entries of which it is not known whether they have arrived.
var (
	ErrCutOff   = errors.New("the daemon stopped while it was being sent")
	ErrNotFound = errors.New("not found yet")
)

// lookUp settles an entry whose fate is unknown. It is sent again only when it
// could not be found after any request for it must have come to an end.
func (d *Drainer) lookUp(ctx context.Context, item Item, entry Entry) (delivered bool, err error) {
	found, err := d.writer.Find(ctx, entry)
	now := d.now()
	var gone *GoneError
	switch {
	case errors.As(err, &gone):
		return false, d.giveUp(context.WithoutCancel(ctx), item, entry, gone)
	case err != nil:
		return false, d.outbox.MarkInDoubt(context.WithoutCancel(ctx), item, d.refused(entry, err), err)
	case found:
		return true, d.arrived(ctx, item)
	case now.Sub(d.sentAt(entry.ID)) < doubt:
		return false, d.outbox.MarkInDoubt(ctx, item, now.Add(lookupEvery), ErrNotFound)
	}
	return false, d.outbox.Retry(ctx, item, d.missing(entry), errors.New("the entry did not arrive; it is sent again"))
}

// arrived notes that an item is in Notion.
func (d *Drainer) arrived(ctx context.Context, item Item) error {
	d.taken(entryID(item.Entry))
	return d.outbox.Delivered(ctx, item, time.Now())
}

// giveUp notes that an item will never be in Notion.
func (d *Drainer) giveUp(ctx context.Context, item Item, entry Entry, gone *GoneError) error {
	d.logger.Warn("a log entry is given up", "log", item.Log, "entry", entry.ID, "title", entry.Title, "error", gone)
	return d.arrived(ctx, item)
}

// sentAt is the latest time at which the entry may have been sent.
func (d *Drainer) sentAt(id string) time.Time {
	if at := d.sent(id); !at.IsZero() {
		return at
	}
	return d.began // by an earlier process
}
