package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"

	"golang.org/x/sync/errgroup"
)

const (
	// batch is how many intents one run takes from the ledger at a time.
	batch = 32
	// parallel is how many of them are sent at a time.
	parallel = 4
	// awaitEvery is how often a queue repeats, while Notion is down, that it waits for it.
	awaitEvery = 30 * time.Second
)

// Reach says whether Notion can be reached.
type Reach interface {
	// Down returns why nothing can be sent; nil while Notion is up.
	Down() error
	// Back returns a channel that is closed when Notion answers again after it was down.
	Back() <-chan struct{}
	// Await says that somebody waits for Notion.
	Await()
}

// Entries puts the entries of one log, or comments, into Notion.
type Entries interface {
	Effect
	// Name returns the entry's id for people, and its title.
	Name(in Intent) (id, title string)
}

// Watcher watches a queue. Its method must be safe for concurrent use, and must not call the
// queue.
type Watcher interface {
	// Delivered is called after each attempt to deliver or look up an intent.
	Delivered()
}

// Config configures a queue.
type Config struct {
	Kind    Kind
	Ledger  Ledger
	Entries Entries
	Notion  Reach     // says whether anything can be sent at all
	To      *Receiver // nil for what Notion is owed
	Watcher Watcher   // nil for none
	Log     *slog.Logger
}

// Queue delivers the intents of one kind in the background. Run and RunOnce must not run at the
// same time; the other methods are safe for concurrent use.
//
// Its times, and those that it gives the ledger, do not jump when the machine's clock is set, see
// Doubts. Intents that an earlier process stored wait maxBackoff at most.
type Queue struct {
	*Sender
	config  Config
	woken   clock.Bell
	hurried bool // the intents of an earlier process were brought forward
	troubles
}

// New returns a queue.
func New(c Config) *Queue {
	return &Queue{
		Sender: NewSender(c.Ledger), config: c, woken: clock.NewBell(),
		troubles: troubles{intents: make(map[string]*trouble), failing: make(map[string]bool)},
	}
}

// Wake makes Run check for something to deliver.
func (q *Queue) Wake() { q.woken.Ring() }

// Run delivers intents as soon as they may be tried, until ctx ends. When stopped is closed, it
// makes one last run and returns.
func (q *Queue) Run(ctx context.Context, stopped <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	back := q.config.Notion.Back() // kept until it is received, so that no turn misses it
	for last := false; ctx.Err() == nil; {
		select {
		case <-back:
			back = q.config.Notion.Back()
			q.failed(ctx, q.Hasten(ctx))
		default:
		}
		down := !last && q.config.Notion.Down() != nil // every intent would only be refused
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
		q.config.Log.Error("the outbox failed", claim.AttrError, err)
	}
}

// RunOnce delivers the intents that may be tried now, and returns how many arrived. One that Notion
// does not take waits in the ledger, without holding up others. Only if several fail in a row do
// all wait.
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
		full := len(intents) == batch
		if q.config.To != nil {
			if intents, err = q.gather(ctx, intents); err != nil {
				return delivered, err
			}
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
		if !full {
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

// Hasten ends all waits after failures, because Notion is back. A run has to follow.
func (q *Queue) Hasten(ctx context.Context) error {
	q.goOn()
	return q.ledger.Hurry(ctx, q.config.Kind, q.now())
}

// now returns the time, by a clock that does not jump.
func (q *Queue) now() time.Time { return q.doubts.Now() }

// Reasons why it is not known whether an intent has arrived, or why it is sent again.
var (
	ErrCutOff   = errors.New("the daemon stopped while it was being sent")
	ErrNotFound = errors.New("not found yet")
	errMissing  = errors.New("the entry did not arrive; it is sent again")
)

// deliver sends an intent or looks it up, with one request. The error is the ledger's.
func (q *Queue) deliver(ctx context.Context, in Intent) (delivered bool, err error) {
	if q.waits(q.now()) {
		return false, nil // the wait began during this run
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
	// The outcome must be noted even if the daemon is stopping.
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
	q.config.Log.Info("the fate of a log entry is unknown; it will be looked up", "log", in.Kind, "entry", in.ID, claim.AttrError, o.Err)
	q.unanswered(in, o.Err)
	return false, q.ledger.NoteInDoubt(note, in, q.now().Add(FirstLookup), o.Err)
}

// lookUp looks up an intent in doubt, and notes its fate.
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
		return false, q.ledger.NoteInDoubt(note, in, q.refused(in, o.Err), o.Err)
	}
	return false, q.ledger.NoteInDoubt(ctx, in, q.now().Add(LookupEvery), ErrNotFound)
}

// giveUp notes that an intent will never be in Notion.
func (q *Queue) giveUp(ctx context.Context, in Intent, gone error) error {
	id, _ := q.config.Entries.Name(in)
	q.config.Log.Warn("a log entry is given up; dibs log has its text", claim.AttrEvent, claim.EventGivenUp, "log", in.Kind, "entry", id,
		claim.AttrKey, in.Fact.Key, claim.AttrTitle, claim.Brief(in.Fact.Title), claim.AttrTask, in.Fact.Task, claim.AttrError, gone)
	q.taken(in)
	return q.ledger.Delivered(ctx, in, "", time.Now())
}
