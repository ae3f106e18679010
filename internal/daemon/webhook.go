package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/mirror"
	"dibs/internal/server"
	"dibs/internal/task"
	"dibs/internal/webhook"

	"golang.org/x/time/rate"
)

const (
	// hintGather is how long events are collected before Notion is asked: they often come in bursts.
	hintGather = 200 * time.Millisecond
	// hintBurst is how often Notion may be asked at once because of events; beyond that, no more
	// often than quick syncs may.
	hintBurst = 5
	// schemaEvery is how often the whole board is read at most because its properties have changed.
	schemaEvery = time.Minute
)

// hooks is what a daemon that leads does with webhooks.
type hooks struct {
	receiver *webhook.Receiver
	hints    *webhook.Hints
	loop     *clock.Loop
	asking   *rate.Limiter
	schema   time.Time // when the whole board was last read because of an event; used by loop only
	delays   times     // from an edit in Notion until it was known here, for edits heard by webhook
	// Edits that were first heard by an event, and by a sync.
	heard, polled atomic.Int64
}

// openHooks prepares for webhooks, which may come from other members even if none is listened for
// here.
func (d *works) openHooks(ctx context.Context) (err error) {
	d.hooks.hints = webhook.NewHints(hinted{d})
	d.hooks.loop = clock.NewLoop(clock.UntilWoken, d.hearHints)
	_, apart := d.source().Room()
	d.hooks.asking = rate.NewLimiter(rate.Every(apart), hintBurst)
	d.hooks.receiver, err = webhook.NewReceiver(ctx, d.journal, func(e webhook.Event) {
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

func (h hinted) Bot() string { return h.bot.id() }

func (h hinted) Wrote(page task.ID, since time.Time) bool { return h.notion.Wrote(page, since) }

func (h hinted) Board(database, source task.ID) bool { return h.tasks.Holds(database, source) }

func (h hinted) Knows(page task.ID) bool {
	_, known := h.mirror.Task(page)
	return known
}

// hearHints reads what events have named. A failure is no matter: the next sync finds everything.
func (d *works) hearHints(ctx context.Context) time.Duration {
	if clock.Pause(ctx, hintGather) != nil || d.hooks.asking.Wait(ctx) != nil {
		return clock.UntilWoken
	}
	b := d.hooks.hints.Take()
	if b.Empty() {
		return clock.UntilWoken
	}
	err := d.lookAt(ctx, b)
	if err != nil && ctx.Err() == nil {
		d.log.Debug("what an event of Notion's named could not be read; the next sync finds it", claim.AttrError, err)
	}
	if err == nil {
		took := max(0, d.notion.Now().Sub(b.First))
		d.hooks.delays.note(took)
		d.metrics.Delayed(took)
	}
	return clock.UntilWoken
}

// lookAt reads what a batch names.
func (d *works) lookAt(ctx context.Context, b webhook.Batch) error {
	if b.Schema && time.Since(d.hooks.schema) >= schemaEvery {
		d.hooks.schema = time.Now()
		if _, err := d.mirror.SyncAll(ctx); err != nil {
			return err
		}
	}
	if len(b.Changed)+len(b.Gone) > 0 {
		if _, err := d.mirror.Look(ctx, webhook.Pages(b.Changed), webhook.Pages(b.Gone)); err != nil {
			return err
		}
	}
	if len(b.Commented) > 0 && d.listener.hear(ctx, b.Commented) > 0 {
		d.broker.Published()
	}
	return nil
}

// countEdits counts what a sync found, by how it was first heard of. A sync of the whole board finds
// more than edits.
func (d *works) countEdits(r mirror.Result) {
	n := int64(len(r.Changed) + len(r.Gone))
	switch {
	case r.Hinted:
		d.hooks.heard.Add(n)
		d.metrics.Heard("webhook", int(n))
	case !r.Full:
		d.hooks.polled.Add(n)
		d.metrics.Heard("sync", int(n))
	}
}

// Webhook implements broker.House.
func (d house) Webhook() api.Webhook {
	known := d.hooks.receiver.State()
	w := api.Webhook{Token: known.Token, Address: d.hookURL(), Received: known.Received}
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
		Address: address, Verified: known.Token != "", Received: known.Received, LastAt: api.Time{Time: known.Last},
		Edits: int(d.hooks.heard.Load()), Polled: int(d.hooks.polled.Load()),
	}
	if n, median, slowest := d.hooks.delays.sum(); n > 0 {
		s.MedianSeconds, s.SlowestSeconds = median.Seconds(), slowest.Seconds()
	}
	return s
}

// listenForHooks listens at webhook.listen, if set.
func (d *Daemon) listenForHooks(ctx context.Context, c config.Webhook) error {
	if c.Listen == "" {
		return nil
	}
	var network net.ListenConfig
	l, err := network.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("webhook.listen: %w: set another address, or none", err)
	}
	d.cleanup = append(d.cleanup, func() error { return closeOnce(l) })
	d.hookListen = l
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
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := h.Serve(d.hookListen); err != nil {
			d.log.Error("webhooks are not heard any more: their listener failed; syncs go on", claim.AttrError, err)
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
