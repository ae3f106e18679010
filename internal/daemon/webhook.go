package daemon

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/mirror/webhook"
	"dibs/internal/task"
)

const (
	// hintGather is how long events are collected before Notion is asked: they often come in bursts.
	hintGather = 200 * time.Millisecond
	// boardEvery is how often the whole board is read at most because of events.
	boardEvery = time.Minute
)

// hooks is what a daemon that leads does with webhooks.
type hooks struct {
	receiver *webhook.Receiver
	hints    *webhook.Hints
	loop     *clock.Loop
	// board reads the whole board, when it is woken.
	board  *clock.Loop
	wanted atomic.Bool // board has something to do
	read   time.Time   // when board last read it; used by board only
	delays times       // from an edit in Notion until it was known here, for edits heard by webhook
	// Edits that were first heard by an event, and by a sync.
	heard, polled atomic.Int64
	missed        atomic.Int64 // polled since the last event
}

// openHooks prepares for webhooks, which may come from other members even if none is listened for
// here.
func (d *works) openHooks(ctx context.Context) (err error) {
	d.hooks.hints = webhook.NewHints(hinted{d})
	d.hooks.loop = clock.NewLoop(clock.UntilWoken, d.hearHints)
	d.hooks.board = clock.NewLoop(clock.UntilWoken, d.readBoard)
	d.hooks.receiver, err = webhook.NewReceiver(ctx, d.journal, func(e webhook.Event) {
		d.hooks.missed.Store(0)
		kind := d.hooks.hints.Add(e)
		d.metrics.Hooked(string(kind))
		if kind == webhook.Heard {
			d.hooks.loop.Wake()
		}
	}, d.log)
	return err
}

// hinted implements webhook.House.
type hinted struct{ *works }

func (h hinted) Now() time.Time { return h.notion.Now() }

func (h hinted) Bot() string { return h.notion.KnownBot() }

func (h hinted) Wrote(page task.ID, since time.Time) bool { return h.notion.Wrote(page, since) }

func (h hinted) Board(database, source task.ID) bool { return h.tasks.Holds(database, source) }

func (h hinted) Knows(page task.ID) bool {
	_, known := h.mirror.Task(page)
	return known
}

// hearHints reads what events have named. What cannot be read now is tried again.
func (d *works) hearHints(ctx context.Context) time.Duration {
	if clock.Pause(ctx, hintGather) != nil {
		return clock.UntilWoken
	}
	b := d.hooks.hints.Take()
	if b.Empty() {
		return clock.UntilWoken
	}
	left, err := d.lookAt(ctx, b)
	if left.Empty() {
		return clock.UntilWoken
	}
	d.hooks.hints.Return(left)
	if err == nil {
		return time.Second
	}
	if ctx.Err() == nil {
		d.log.Debug("what an event of Notion's named could not be read; it is tried again", claim.AttrError, err)
	}
	return d.interval()
}

// lookAt reads what a batch names, and returns what is left of it.
func (d *works) lookAt(ctx context.Context, b webhook.Batch) (left webhook.Batch, err error) {
	if b.All {
		d.hooks.wanted.Store(true)
		d.hooks.board.Wake()
		b.All = false
	}
	if len(b.Commented) > 0 {
		added, err := d.listener.hear(ctx, b.Commented)
		if added > 0 {
			d.broker.Published()
		}
		if err != nil {
			return b, err
		}
	}
	if len(b.Changed)+len(b.Gone) == 0 {
		return webhook.Batch{}, nil
	}
	found, rest, err := d.mirror.Look(ctx, webhook.Pages(b.Changed), webhook.Pages(b.Gone))
	named := 0
	for _, t := range slices.Concat(found.Changed, found.Gone) {
		if b.Changed[t.ID] || b.Gone[t.ID] {
			named++
		}
	}
	d.countEdits("webhook", &d.hooks.heard, named)
	d.countEdits("sync", &d.hooks.polled, len(found.Changed)+len(found.Gone)-named)
	if named > 0 && !b.First.IsZero() {
		took := max(0, d.notion.Now().Sub(b.First))
		d.hooks.delays.note(took)
		d.metrics.Delayed(took)
	}
	return b.Only(rest), err
}

// readBoard reads the whole board because its properties have changed, or too much else.
func (d *works) readBoard(ctx context.Context) time.Duration {
	if !d.hooks.wanted.Load() || clock.Pause(ctx, time.Until(d.hooks.read.Add(boardEvery))) != nil {
		return clock.UntilWoken
	}
	d.hooks.wanted.Store(false)
	d.hooks.read = time.Now()
	if _, err := d.mirror.SyncAll(ctx); err != nil { // it is logged
		d.hooks.wanted.Store(true)
		return boardEvery
	}
	return clock.UntilWoken
}

// countEdits counts edits by how they were first heard of.
func (d *works) countEdits(by string, all *atomic.Int64, n int) {
	all.Add(int64(n))
	d.metrics.Heard(by, n)
}

// countSynced counts what a sync found that no event had asked for. A sync of the whole board finds
// more than edits.
func (d *works) countSynced(r mirror.Result) {
	if n := len(r.Changed) + len(r.Gone); !r.Hinted && !r.Full {
		d.countEdits("sync", &d.hooks.polled, n)
		d.hooks.missed.Add(int64(n))
	}
}

// hookStatus returns the status of the webhook; nil if none is listened for, and none ever came.
func (d *works) hookStatus() *api.WebhookStatus {
	known := d.hooks.receiver.State()
	address := d.hookURL()
	if address == "" && known.Token == "" {
		return nil
	}
	s := &api.WebhookStatus{
		Address: address, Verified: known.Token != "", Received: known.Received, LastAt: api.Time{Time: known.Last}, Refused: d.hooksIn.Refused(),
		Edits: int(d.hooks.heard.Load()), Polled: int(d.hooks.polled.Load()), Missed: int(d.hooks.missed.Load()),
	}
	if n, median, slowest := d.hooks.delays.sum(); n > 0 {
		s.MedianSeconds, s.SlowestSeconds = median.Seconds(), slowest.Seconds()
	}
	return s
}

// timesKept is how many times are kept.
const timesKept = 100

// times keeps how long something took, the last times. It is safe for concurrent use.
type times struct {
	mu   sync.Mutex
	took []time.Duration // oldest first
}

// note records one more.
func (o *times) note(took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.took) == timesKept {
		o.took = o.took[1:]
	}
	o.took = append(o.took, took)
}

// sum returns the number of times kept, their median and their maximum; zeros for none.
func (o *times) sum() (n int, median, slowest time.Duration) {
	o.mu.Lock()
	sorted := slices.Sorted(slices.Values(o.took))
	o.mu.Unlock()
	if n = len(sorted); n == 0 {
		return 0, 0, 0
	}
	return n, sorted[n/2], sorted[n-1]
}
