package owed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/clock"

	"golang.org/x/sync/errgroup"
)

const (
	// batch is how many intents one run takes from the ledger at a time.
	batch = 32
	// parallel is how many of them are on their way at a time.
	parallel = 4
	// awaitEvery is how often a queue says, while Notion is down, that something is owed.
	awaitEvery = 30 * time.Second
)

// Reach is whether Notion can be reached.
type Reach interface {
	// Down says why nothing is sent because Notion is down; nil as long as it is up.
	Down() error
	// Back returns a channel that is closed when Notion, having been down, answers again.
	Back() <-chan struct{}
	// Await says that somebody waits for Notion.
	Await()
}

// Entries is how entries of one log, or comments, get into Notion.
type Entries interface {
	Effect
	// Name returns the id that people know the entry by, and its title.
	Name(in Intent) (id, title string)
}

// Watcher is told what becomes of intents. Its method is safe for concurrent use, and must not
// call the queue.
type Watcher interface {
	// Delivered is called when something has become of one.
	Delivered()
}

// Config is what a queue is made of.
type Config struct {
	Kind    Kind
	Ledger  Ledger
	Entries Entries
	Notion  Reach
	Watcher Watcher // nil for nobody
	Log     *slog.Logger
}

// Queue delivers the intents of one kind, by itself. One run at a time; the other methods are safe
// for concurrent use.
//
// No time that it goes by jumps when the machine's clock is set, see Doubts: nor do those that it
// gives to the ledger. What an earlier process stored waits for no longer than anything does.
type Queue struct {
	*Sender
	config  Config
	woken   clock.Bell
	hurried bool // what an earlier process left has been brought near
	troubles
}

// New returns a queue.
func New(c Config) *Queue {
	return &Queue{
		Sender: NewSender(c.Ledger), config: c, woken: clock.NewBell(),
		troubles: troubles{intents: make(map[string]*trouble), failing: make(map[string]bool)},
	}
}

// Wake has Run look whether there is something to deliver.
func (q *Queue) Wake() { q.woken.Ring() }

// Run delivers what there is as soon as it may be, and for the last time when stopped is closed,
// until ctx ends.
func (q *Queue) Run(ctx context.Context, stopped <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	back := q.config.Notion.Back() // kept until it is heeded: that Notion is back is missed by no turn
	for last := false; ctx.Err() == nil; {
		select {
		case <-back:
			back = q.config.Notion.Back()
			q.failed(ctx, q.Hasten(ctx))
		default:
		}
		down := !last && q.config.Notion.Down() != nil // then all would only be refused, and noted
		if !down {
			_, err := q.RunOnce(ctx)
			q.failed(ctx, err)
		}
		if last {
			return
		}
		wait := time.Hour
		if next, ok, err := q.NextAt(ctx); err == nil && ok {
			wait = max(time.Second, time.Until(next))
			if down {
				q.config.Notion.Await()
				wait = awaitEvery // or until it is back
			}
		}
		timer.Reset(wait)
		select {
		case <-q.woken:
		case <-timer.C:
		case <-back:
		case <-stopped:
			last = true
		case <-ctx.Done():
		}
	}
}

func (q *Queue) failed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		q.config.Log.Error("the outbox failed", "error", err)
	}
}

// RunOnce delivers what may be delivered now, and returns how many intents that were. What Notion
// does not take waits in the ledger, and no other waits for it, unless several are not taken and
// none is: then all wait.
func (q *Queue) RunOnce(ctx context.Context) (delivered int, err error) {
	if !q.hurried {
		if err := q.ledger.Hurry(ctx, q.config.Kind, q.now().Add(maxBackoff)); err != nil {
			return 0, err
		}
		q.hurried = true
	}
	for {
		if q.waits(q.now()) {
			return delivered, nil
		}
		intents, err := q.ledger.NextOwed(ctx, q.config.Kind, q.now(), batch)
		if err != nil {
			return delivered, err
		}
		var mu sync.Mutex
		group, gctx := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for _, in := range intents {
			group.Go(func() error {
				ok, err := q.deliver(gctx, in)
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
		if len(intents) < batch {
			return delivered, nil
		}
	}
}

// NextAt returns when there may be something to deliver; false if nothing is owed.
func (q *Queue) NextAt(ctx context.Context) (next time.Time, ok bool, err error) {
	now := q.now()
	if until := q.waitsUntil(); until.After(now) {
		return time.Now().Add(until.Sub(now)), true, nil
	}
	next, ok, err = q.ledger.NextOwedAt(ctx, q.config.Kind)
	return time.Now().Add(max(0, next.Sub(now))), ok, err
}

// Hasten has nothing wait any longer that waits because it, or all, failed: Notion is back. It is
// to be followed by a run.
func (q *Queue) Hasten(ctx context.Context) error {
	q.goOn()
	return q.ledger.Hurry(ctx, q.config.Kind, q.now())
}

// now is the time that does not jump.
func (q *Queue) now() time.Time { return q.doubts.Now() }

// Errors of intents of which it is not known whether they have arrived.
var (
	ErrCutOff   = errors.New("the daemon stopped while it was being sent")
	ErrNotFound = errors.New("not found yet")
	errMissing  = errors.New("the entry did not arrive; it is sent again")
)

// deliver takes an intent as far as one request takes it. The error is the ledger's own.
func (q *Queue) deliver(ctx context.Context, in Intent) (delivered bool, err error) {
	if q.waits(q.now()) {
		return false, nil // that began while this run was under way
	}
	if q.config.Watcher != nil {
		defer q.config.Watcher.Delivered()
	}
	if in.State == Doubted {
		return q.lookUp(ctx, in)
	}
	o, err := q.send(ctx, in, q.config.Entries)
	if err != nil {
		return false, err
	}
	// What was sent must be noted even if the daemon is stopping.
	note := context.WithoutCancel(ctx)
	switch {
	case o.Fate == Arrived:
		q.taken(in)
		return true, q.ledger.Delivered(note, in, o.Ref, time.Now())
	case o.Fate == Gone:
		return false, q.giveUp(note, in, o.Err)
	case o.Fate == Absent && ctx.Err() != nil:
		return false, q.ledger.Retry(note, in, q.now(), nil) // the daemon is stopping
	case o.Fate == Absent:
		return false, q.ledger.Retry(note, in, q.refused(in, o.Err), o.Err)
	}
	q.config.Log.Info("the fate of a log entry is unknown; it will be looked up", "log", in.Kind, "entry", in.ID, "error", o.Err)
	q.unanswered(in, o.Err)
	return false, q.ledger.MarkInDoubt(note, in, q.now().Add(FirstLookup), o.Err)
}

// lookUp settles an intent in doubt.
func (q *Queue) lookUp(ctx context.Context, in Intent) (delivered bool, err error) {
	o, err := q.Seek(ctx, in, q.config.Entries)
	note := context.WithoutCancel(ctx)
	switch {
	case err != nil:
		return false, err
	case o.Fate == Arrived:
		q.taken(in)
		return true, nil
	case o.Fate == Gone:
		return false, q.giveUp(note, in, o.Err)
	case o.Fate == Absent:
		return false, q.ledger.Retry(ctx, in, q.missing(in), errMissing)
	case o.Err != nil:
		return false, q.ledger.MarkInDoubt(note, in, q.refused(in, o.Err), o.Err)
	}
	return false, q.ledger.MarkInDoubt(ctx, in, q.now().Add(LookupEvery), ErrNotFound)
}

// giveUp notes that an intent will never be in Notion.
func (q *Queue) giveUp(ctx context.Context, in Intent, gone error) error {
	id, title := q.config.Entries.Name(in)
	q.config.Log.Warn("a log entry is given up", "log", in.Kind, "entry", id, "title", title, "error", gone)
	q.taken(in)
	return q.ledger.Delivered(ctx, in, "", time.Now())
}
