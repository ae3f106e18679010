package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/backoff"
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

// Receiver makes a queue one of notices, to a receiver outside of Notion. Its Entries put an intent
// and those With it into one message, and report every failure as claim.LandedNo: nothing can be
// looked up there.
type Receiver struct {
	Name string // for people, without secrets
	// Gather is how long a notice waits for others that go into the same message.
	Gather time.Duration
	// Keep is how long after its fact a notice is given up.
	Keep time.Duration
}

// Tally counts what became of a queue's intents since the queue was made.
type Tally struct {
	Sent    int
	Failed  int // requests
	GivenUp int // after Receiver.Keep
}

// Queue delivers the intents of one kind in the background. Run and RunOnce must not run at the
// same time; the other methods are safe for concurrent use.
//
// Its times, and those that it gives the ledger, do not jump when the machine's clock is set, see
// Doubts. Intents that an earlier process stored wait ten minutes at most.
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
		if err := q.ledger.Hurry(ctx, q.config.Kind, q.now().Add(retries.Longest)); err != nil {
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

// Tally returns the counts, and the name of the queue's receiver; empty for a queue to Notion.
func (q *Queue) Tally() (receiver string, t Tally) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.config.To != nil {
		receiver = q.config.To.Name
	}
	return receiver, q.tally
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

// gather returns what to deliver now of the intents that may be tried: those in doubt, and the
// others as one, once they have waited for more. It gives up those that are too old.
func (q *Queue) gather(ctx context.Context, all []Intent) ([]Intent, error) {
	var now, due, old []Intent
	for _, in := range all {
		switch {
		case q.now().Sub(in.At) > q.config.To.Keep:
			old = append(old, in)
		case in.State == Doubted:
			now = append(now, in)
		default:
			due = append(due, in)
		}
	}
	if err := q.expire(ctx, old); err != nil || len(due) == 0 || q.holds() {
		return now, err
	}
	return append(now, together(due)), nil
}

// together returns the intents as one; there is at least one.
func together(all []Intent) Intent {
	first := all[0]
	first.With = all[1:]
	return first
}

// holds reports whether notices that could be sent wait for more, and begins that wait. After a
// failure they have waited enough.
func (q *Queue) holds() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holding || q.pauses > 0 {
		q.holding = false
		return false
	}
	q.holding, q.until = true, q.now().Add(q.config.To.Gather)
	return true
}

// expire gives notices up. That they failed says nothing about the others.
func (q *Queue) expire(ctx context.Context, old []Intent) error {
	if len(old) == 0 {
		return nil
	}
	if err := q.ledger.Delivered(context.WithoutCancel(ctx), together(old), "", time.Now()); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, in := range old {
		delete(q.intents, in.ID)
		delete(q.failing, in.ID)
	}
	q.tally.GivenUp += len(old)
	q.config.Log.Warn("notices are given up: they are too old; dibs log has what they told of", claim.AttrEvent, claim.EventGivenUp, "receiver", q.config.To.Name,
		claim.AttrCount, len(old), claim.AttrError, q.why)
	return nil
}

// retries are the waits after failures, of one intent or of all.
var retries = backoff.Backoff{First: 15 * time.Second, Longest: 10 * time.Minute}

// trouble is an intent that failed, and has not arrived.
type trouble struct {
	Intent
	failed int       // how often it failed
	why    error     // the last failure
	until  time.Time // when it is tried again; zero while it is in doubt
}

// troubles keeps the failures of one queue.
type troubles struct {
	mu      sync.Mutex
	intents map[string]*trouble // by id

	failing map[string]bool // the intents that failed since the last success
	pauses  int             // how often all have waited since then
	until   time.Time       // until when all wait
	why     error           // why all wait; nil if Notion as a whole asked for it
	holding bool            // all wait for more, see Queue.holds
	tally   Tally
}

// waits reports whether all intents wait.
func (t *troubles) waits(now time.Time) bool { return now.Before(t.waitsUntil()) }

func (t *troubles) waitsUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// goOn ends the wait of all intents.
func (t *troubles) goOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until, t.why = time.Time{}, nil
}

// taken notes that an intent is in Notion.
func (t *troubles) taken(in Intent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range in.All() {
		delete(t.intents, in.ID)
		t.tally.Sent++
	}
	clear(t.failing)
	t.pauses, t.until, t.why = 0, time.Time{}, nil
}

// fails notes that an intent failed, and returns its trouble.
func (t *troubles) fails(in Intent, why error) *trouble {
	known := t.intents[in.ID]
	if known == nil {
		known = &trouble{Intent: in}
		t.intents[in.ID] = known
	}
	known.failed++
	known.why = why
	t.failing[in.ID] = true
	return known
}

// refused notes that Notion did not take an intent, or could not look it up, and returns when to
// try again. An intent that fails alone waits alone, however often it fails. If several fail
// without a success in between, all wait.
func (q *Queue) refused(in Intent, why error) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.tally.Failed++
	if asked := claim.RetryAfter(why); asked > 0 {
		// Notion as a whole asks to be left alone, and says for how long. That is no failure
		// of the intent.
		q.until, q.why = later(q.until, now.Add(asked)), nil
		if q.config.To != nil {
			q.why, q.holding = why, true
		}
		return now
	}
	known := q.fails(in, why)
	known.until = now.Add(retries.After(max(len(q.failing), known.failed)))
	q.heed(in, why, q.crowd()-1)
	return known.until
}

// crowd is how many intents have to fail for all to wait: a receiver fails as a whole.
func (q *Queue) crowd() int {
	if q.config.To != nil {
		return 1
	}
	return parallel
}

// unanswered notes that an intent's fate is unknown. The intent itself is looked up as usual; but
// if this happens to several without a success in between, all wait.
func (q *Queue) unanswered(in Intent, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fails(in, why).until = time.Time{}
	q.heed(in, why, 0)
}

// missing notes that an intent in doubt did not arrive, and returns when to send it again: at once
// the first time, because the connection may have been cut by chance.
func (q *Queue) missing(in Intent) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.intents[in.ID]
	if known == nil || known.failed < 2 {
		return q.now()
	}
	known.until = q.now().Add(retries.After(known.failed - 1))
	return known.until
}

// heed makes all intents wait once enough of them have failed. The wait gets longer each time; the
// first is as long as after that many earlier failures.
func (q *Queue) heed(in Intent, why error, earlier int) {
	if n := len(q.failing); q.config.To != nil {
		q.config.Log.Warn("notices wait for their receiver", "receiver", q.config.To.Name, claim.AttrError, why)
	} else if n == 1 || n%10 == 0 {
		id, _ := q.config.Entries.Name(in)
		q.config.Log.Warn("a log entry waits in the outbox", "log", q.config.Kind, "entry", id, claim.AttrError, why)
	}
	if len(q.failing) < q.crowd() {
		return
	}
	now := q.now()
	if !now.Before(q.until) { // else it was sent before the wait began
		q.pauses++
	}
	q.until, q.why = later(q.until, now.Add(retries.After(earlier+q.pauses))), why
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// named is how many entries Troubles names.
const named = 3

// Troubles describes why intents do not arrive, and when they are tried again: in one line if all
// wait, else in a line for each. It does not report that Notion as a whole cannot be reached.
func (q *Queue) Troubles() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	in := func(until time.Time) string {
		if left := until.Sub(now).Round(time.Second); left > 0 {
			return "in " + left.String()
		}
		return "now"
	}
	var lines []string
	if n := q.tally.GivenUp; n > 0 {
		lines = append(lines, fmt.Sprintf("notices given up since the daemon's start, because %s had not taken them after %.0f hours: %d; dibs log has what happened", q.config.To.Name, q.config.To.Keep.Hours(), n))
	}
	if q.why != nil {
		what := fmt.Sprintf("the %s log takes no entries", q.config.Kind)
		switch {
		case q.config.To != nil:
			what = q.config.To.Name + " takes no notices"
		case q.config.Kind == Comment:
			what = "no comments can be made"
		}
		return append(lines, fmt.Sprintf("%s: %v: they are kept, and tried again %s", what, q.why, in(q.until)))
	}
	more := 0
	for _, key := range slices.Sorted(maps.Keys(q.intents)) {
		t := q.intents[key]
		switch {
		case t.until.IsZero() && t.failed < 2:
			// being sent, or looked for after it was sent once, as any may be
		case len(lines) == named:
			more++
		default:
			id, title := q.config.Entries.Name(t.Intent)
			what := fmt.Sprintf("entry %s of the %s log", id, q.config.Kind)
			if q.config.Kind == Comment {
				what = "the comment for"
			}
			lines = append(lines, fmt.Sprintf("%s, %q, is not taken: %v: it is kept, and tried again %s",
				what, title, t.why, in(cmp.Or(t.until, now))))
		}
	}
	if more > 0 {
		what := fmt.Sprintf("entries of the %s log", q.config.Kind)
		if q.config.Kind == Comment {
			what = "comments"
		}
		lines = append(lines, fmt.Sprintf("%d more %s are not taken either", more, what))
	}
	return lines
}
