package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/door/server"
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

// Webhook implements broker.House.
func (d house) Webhook() api.Webhook {
	known := d.hooks.receiver.State()
	w := api.Webhook{Token: known.Token, Address: d.hookURL(), Received: known.Received, RefusedAt: api.Time{Time: known.Refused}, Refused: d.hooksIn.Refused()}
	if !known.Last.IsZero() {
		w.LastAt = &api.Time{Time: known.Last}
	}
	return w
}

// RenewWebhook implements broker.House.
func (d house) RenewWebhook(ctx context.Context, by string) error {
	err := d.hooks.receiver.Renew(ctx)
	if err == nil {
		d.log.Info("the verification token of the webhook is forgotten; the next one is kept", claim.AttrBy, by)
	}
	return err
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

// listenForHooks listens for webhooks, unless that is off.
func (d *Daemon) listenForHooks(ctx context.Context, o Options) (err error) {
	d.hookListen = o.Webhooks
	if address := o.Config.Webhook.Listen; d.hookListen == nil && address != "" {
		var network net.ListenConfig
		if d.hookListen, err = network.Listen(ctx, "tcp", address); err != nil {
			return fmt.Errorf("webhook.listen: %w: set another address, or none", err)
		}
	}
	if d.hookListen == nil {
		return nil
	}
	d.cleanup = append(d.cleanup, func() error { return closeOnce(d.hookListen) })
	d.log.Info("listening for Notion's webhooks", "url", d.hookURL())
	return nil
}

// hookURL returns the URL at which webhooks are listened for; empty if they are not.
func (d *Daemon) hookURL() string {
	if d.hookListen == nil {
		return ""
	}
	return "http://" + d.hookListen.Addr().String() + d.live.Load().Webhook.Path
}

// serveHooks takes webhooks until stop is called: the leader's receiver gets them.
func (d *Daemon) serveHooks() (stop func()) {
	if d.hookListen == nil {
		return func() {}
	}
	var to http.HandlerFunc
	if d.shared != nil {
		to = d.shared.door.Forward
	} else {
		to = d.works.Load().hooks.receiver.ServeHTTP
	}
	h := server.NewWebhooks(d.live.Load().Webhook.Path, to, d.log, webhook.SignatureHeader)
	d.hooksIn = h
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := h.Serve(d.hookListen); err != nil {
			d.log.Error("webhooks are not heard any more: their listener failed; syncs go on; restart the daemon", claim.AttrError, err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), doorDrain)
		defer cancel()
		h.Shutdown(ctx)
		<-over
	}
}

// Hooks returns what takes webhooks while this daemon leads, else nil.
func (s *shared) Hooks() http.Handler {
	if w := s.daemon.works.Load(); w != nil {
		return w.hooks.receiver
	}
	return nil
}
