package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/daemon/metrics"
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

// hooks is what a daemon that leads does with webhooks. They may come from other members even if this
// one listens for none.
type hooks struct {
	receiver *webhook.Receiver
	hints    *webhook.Hints
	mirror   *mirror.Mirror
	comments func(context.Context, map[task.ID]bool) error // reads the comments on tasks
	metrics  *metrics.Metrics
	clock    clock.Source // Notion's
	interval func() time.Duration
	log      *slog.Logger

	loop *clock.Loop
	// board reads the whole board, when it is woken.
	board  *clock.Loop
	wanted atomic.Bool   // board has something to do
	read   time.Time     // when board last read it; used by board only
	delays metrics.Times // from an edit in Notion until it was known here, for edits heard by webhook
	// Edits that were first heard by an event, and by a sync.
	heard, polled atomic.Int64
	missed        atomic.Int64 // polled since the last event
}

// open takes up the receiver as the journal remembers it. The other parts must be there.
func (h *hooks) open(ctx context.Context, stored webhook.Memory) (err error) {
	h.loop, h.board = clock.NewLoop(clock.UntilWoken, h.hearHints), clock.NewLoop(clock.UntilWoken, h.readBoard)
	h.receiver, err = webhook.NewReceiver(ctx, stored, func(e webhook.Event) {
		h.missed.Store(0)
		kind := h.hints.Add(e)
		h.metrics.Hooked(string(kind))
		if kind == webhook.Heard {
			h.loop.Wake()
		}
	}, h.log)
	return err
}

// hearHints reads what events have named. What cannot be read now is tried again.
func (h *hooks) hearHints(ctx context.Context) time.Duration {
	if clock.Pause(ctx, hintGather) != nil {
		return clock.UntilWoken
	}
	b := h.hints.Take()
	if b.Empty() {
		return clock.UntilWoken
	}
	left, err := h.lookAt(ctx, b)
	if left.Empty() {
		return clock.UntilWoken
	}
	h.hints.Return(left)
	if err == nil {
		return time.Second
	}
	if ctx.Err() == nil {
		h.log.Debug("what an event of Notion's named could not be read; it is tried again", claim.AttrError, err)
	}
	return h.interval()
}

// lookAt reads what a batch names, and returns what is left of it.
func (h *hooks) lookAt(ctx context.Context, b webhook.Batch) (left webhook.Batch, err error) {
	if b.All {
		h.wanted.Store(true)
		h.board.Wake()
		b.All = false
	}
	if len(b.Commented) > 0 {
		if err := h.comments(ctx, b.Commented); err != nil {
			return b, err
		}
	}
	if len(b.Changed)+len(b.Gone) == 0 {
		return webhook.Batch{}, nil
	}
	found, rest, err := h.mirror.Look(ctx, webhook.Pages(b.Changed), webhook.Pages(b.Gone))
	named := 0
	for _, t := range slices.Concat(found.Changed, found.Gone) {
		if b.Changed[t.ID] || b.Gone[t.ID] {
			named++
		}
	}
	h.countEdits("webhook", &h.heard, named)
	h.countEdits("sync", &h.polled, len(found.Changed)+len(found.Gone)-named)
	if named > 0 && !b.First.IsZero() {
		took := max(0, h.clock.Now().Sub(b.First))
		h.delays.Note(took)
		h.metrics.Delayed(took)
	}
	return b.Only(rest), err
}

// readBoard reads the whole board because its properties have changed, or too much else.
func (h *hooks) readBoard(ctx context.Context) time.Duration {
	if !h.wanted.Load() || clock.Pause(ctx, time.Until(h.read.Add(boardEvery))) != nil {
		return clock.UntilWoken
	}
	h.wanted.Store(false)
	h.read = time.Now()
	if _, err := h.mirror.SyncAll(ctx); err != nil { // it is logged
		h.wanted.Store(true)
		return boardEvery
	}
	return clock.UntilWoken
}

// countEdits counts edits by how they were first heard of.
func (h *hooks) countEdits(by string, all *atomic.Int64, n int) {
	all.Add(int64(n))
	h.metrics.Heard(by, n)
}

// countSynced counts what a sync found that no event had asked for. A sync of the whole board finds
// more than edits.
func (h *hooks) countSynced(r mirror.Result) {
	if n := len(r.Changed) + len(r.Gone); !r.Hinted && !r.Full {
		h.countEdits("sync", &h.polled, n)
		h.missed.Add(int64(n))
	}
}
