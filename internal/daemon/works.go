package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"dibs/config"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/doubt"
	"dibs/internal/claim/keepers"
	"dibs/internal/daemon/metrics"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox"
	"dibs/internal/outbox/creation"
	"dibs/internal/outbox/wording"
	"dibs/internal/reserve"
)

// works is the part of a daemon that exists while it leads: everything built on the journal.
type works struct {
	*Daemon
	config config.Config // as at the start; a reload changes Daemon.live

	notion  *notion.Client
	tasks   *notion.Tasks
	journal *journal.Journal
	claimer *claim.Claimer
	mirror  *mirror.Mirror
	queues  []*outbox.Queue // one for each log, one for comments, and one for each receiver of notices; independent of each other
	doubt   *doubt.Doubt
	// overwrites measures for how long people's edits are at risk.
	overwrites   times
	hooks        hooks
	users        *notion.Users // who edits the cards of held claims
	broker       *broker.Broker
	alive        *keepers.Watch
	reservations *reserve.Book
	server       *server.Server
	metrics      *metrics.Metrics
	telling      *telling
	scrapes      net.Listener // for metrics alone; nil without one
	listener     listener

	jobs *jobs

	// Loops that other parts wake.
	due, news, leases, held, untidy, offers *clock.Loop

	checked bool   // checkHeld has succeeded; used by held only
	begun   bool   // the feed has begun, see journal.Begin; used by news only
	said    string // the last error of tidying; used by untidy only

	cleanup cleanup
}

// unbegun is the error of begin, joined with those of its cleanup.
type unbegun struct {
	error
	passes bool // the cause may pass by itself
}

func (u *unbegun) Unwrap() error { return u.error }

// begin builds everything on the journal that open opens. The caller must call run or cleanup.run
// next.
func (h *Daemon) begin(ctx context.Context, open func(context.Context) (*journal.Journal, error)) (_ *works, err error) {
	d := &works{Daemon: h, config: *h.live.Load(), telling: newTelling(h.log)}
	d.due, d.news, d.leases = clock.NewLoop(0, d.takeSteps), clock.NewLoop(0, d.publishNews), clock.NewLoop(0, d.warn)
	d.held, d.untidy, d.offers = clock.NewLoop(0, d.checkHeld), clock.NewLoop(clock.UntilWoken, d.tidyUp), clock.NewLoop(0, d.takeBackOffers)
	defer func() {
		if err != nil {
			err = &unbegun{error: errors.Join(err, d.cleanup.run()), passes: journal.Passing(err)}
		}
	}()
	if err := d.listenForScrapes(ctx); err != nil {
		return nil, err
	}
	if d.journal, err = open(ctx); err != nil {
		return nil, err
	}
	d.journal.Hear(d.telling.hear)
	d.cleanup = append(d.cleanup, d.telling.close, d.journal.Close)
	d.journal.Watch(func(why error) {
		if why != nil {
			d.log.Error("the journal cannot be written: nothing is accepted until it can be", claim.AttrError, why)
		} else {
			d.log.Info("the journal can be written again")
		}
	})
	if err := d.checkHome(ctx, d.transport); err != nil {
		return nil, err
	}
	logs, down, err := d.connect(ctx, d.transport)
	if err != nil {
		return nil, err
	}
	if err := d.build(ctx, logs, down); err != nil {
		return nil, err
	}
	if err := d.claimer.Recover(ctx); err != nil {
		return nil, err
	}
	d.cleanup = append(d.cleanup, d.mirror.Close)
	if err := d.mirror.Begin(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(d.keepHome(ctx), d.keepSources(ctx)); err != nil {
		return nil, err
	}
	d.knowBot(ctx)
	for _, w := range d.tasks.Warnings() {
		d.log.Warn(w)
	}
	return d, nil
}

// connect opens the three databases, which checks the token, the sharing and the schema. It does
// not wait if Notion asks for a long pause. If the schema of the tasks is from an earlier run, down
// is the reason; otherwise it is nil.
func (d *works) connect(ctx context.Context, transport http.RoundTripper) (logs map[claim.Log]wording.Writer, down, err error) {
	c := d.config
	if d.notion, err = workspace.Connect(c.Notion, transport, d.log); err != nil {
		return nil, nil, err
	}
	if err := c.Databases.Named(); err != nil {
		return nil, nil, err
	}
	workspace.Choose(d.notion, c.Databases)
	known, err := mirror.Schema(ctx, d.journal)
	if err != nil {
		return nil, nil, err
	}
	was, err := d.recallSources(ctx)
	if err != nil {
		return nil, nil, err
	}
	asking := notion.Impatient(ctx)
	if known != "" {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeoutCause(asking, connectWait, errConnect)
		defer cancel()
	}
	if down, err = d.openTasks(ctx, asking, known, was); err != nil {
		return nil, nil, fmt.Errorf("databases.tasks: %w", err)
	}
	logs = make(map[claim.Log]wording.Writer)
	for _, db := range []struct {
		log     claim.Log
		key, id string
	}{
		{claim.MeshLog, "databases.mesh_log", c.Databases.MeshLog},
		{claim.TaskLog, "databases.task_log", c.Databases.TaskLog},
	} {
		if logs[db.log], err = d.openLog(asking, db.id, known != ""); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", db.key, err)
		}
	}
	return logs, down, nil
}

// build makes the parts and connects them. down is as of connect.
func (d *works) build(ctx context.Context, logs map[claim.Log]wording.Writer, down error) (err error) {
	d.mirror, err = mirror.New(ctx, mirror.Config{
		Scoped: len(d.config.Tasks.Only) > 0,
		Source: d.source(), Storage: d.journal, Keep: d.config.Sync.KeepFinished, Interval: d.config.Sync.Interval, Waiting: d.config.Sync.Waiting,
		Idle:    func() bool { return d.claimer.Holding() == 0 },
		Failure: down, Watcher: watcher{d}, Notion: d.notion, Log: d.log,
	})
	if err != nil {
		return err
	}
	policy := policyOf(d.config, d.tasks)
	d.metrics = metrics.New(metrics.Options{
		Version: d.version, WriteWindow: policy.WriteWindow, Settle: policy.Settle, Standing: d.standing, Log: d.log,
	})
	led := ledger{Journal: d.journal, metrics: d.metrics, stored: func() {
		for _, q := range d.queues {
			q.Wake()
		}
		d.news.Wake() // tasks that the protocol was working on can be published now
	}}
	d.users = d.notion.Users()
	origin, _, err := doubt.Origin(ctx, d.journal, d.notion.Now())
	if err != nil {
		return err
	}
	d.claimer, err = claim.New(claim.Config{
		Store: d.tasks, Ledger: led, Policy: policy,
		Origin: origin, Beside: func() bool { return d.doubt.Beside() }, Kept: func(id claim.ID) bool { return d.alive.Keeps(id) },
		Board: board{d.mirror, d}, Watcher: watcher{d}, Editor: d.users.Name, Log: d.log,
	})
	if err != nil {
		return err
	}
	if err := d.openDoubt(ctx); err != nil {
		return err
	}
	said := d.newComments()
	logs[claim.Comments] = said
	for _, log := range slices.Sorted(maps.Keys(logs)) {
		d.queues = append(d.queues, outbox.New(outbox.Config{
			Kind: outbox.Kind(log), Ledger: d.journal, Entries: wording.Entries{Log: log, Writer: logs[log]},
			Notion: d.notion, Watcher: watcher{d}, Log: d.log,
		}))
	}
	if err := d.openReceivers(ctx); err != nil {
		return err
	}
	if err := d.openHooks(ctx); err != nil {
		return err
	}
	d.listener.daemon, d.listener.turn = d, make(chan struct{}, 1)
	d.listener.mesh, _ = logs[claim.MeshLog].(messages)
	if err := d.journal.SetLeads(ctx, leads(d.config)); err != nil {
		return err
	}
	if err := d.journal.SetBounds(ctx, boundsOf(d.config)); err != nil {
		return err
	}
	d.alive, err = keepers.New(ctx, keepers.Config{
		Storage: d.journal, Claims: kept{d.claimer, d}, Processes: d.processes(), Log: d.log,
	})
	if err != nil {
		return err
	}
	d.reservations, err = reserve.NewBook(ctx, reserve.Config{
		Storage: led, Claims: d.claimer, Processes: d.processes(), Clock: d.notion, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.broker = broker.New(broker.Config{
		Claimer: d.claimer, Mirror: d.mirror, Journal: led, Feed: led, Alive: d.alive, Inbox: d.inboxOf(led), Reserved: d.reservations, Clock: d.notion, Notion: d.notion,
		Past: led, House: house{d},
		Agents: agentsOf(d.config), Names: led, Fields: d.config.Tasks.Selectable(), Words: d.tasks.Words(), Comments: said, Pages: pages{d.notion}, Creations: creation.New(d.journal, d.tasks, d.mirror.Observe, d.log), Cluster: d.cluster(), Log: d.log,
	})
	d.server = server.New(server.Options{
		Broker: measured{d.broker, d.metrics}, Journal: d.journal, Log: d.log, Version: d.version,
		Metrics: d.metrics, Machines: d.machines(),
	})
	d.server.SetListed(listed(d.config))
	return nil
}

// policyOf returns the protocol's policy under this configuration. Grace is how long a voided claim
// stays visible: longer than another daemon takes to check the claims it holds.
func policyOf(c config.Config, tasks *notion.Tasks) claim.Policy {
	return claim.Policy{
		Timeout: c.Claim.Timeout, WriteWindow: c.Claim.WriteWindow, Settle: settle(c),
		OpenOnly: c.Claim.Override == config.OverrideOpenOnly, Exclusive: c.Claim.Exclusive || c.Journal.Shared(),
		Request:     c.Notion.Timeout,
		Grace:       2*c.Sync.Interval + settle(c) + c.Notion.Timeout,
		MaxLifetime: c.Claim.MaxLifetime, MaxPerAgent: c.Claim.MaxPerAgent,
		MaxAttempts: c.Claim.MaxAttempts, Todos: c.Claim.Todos, ReviewAll: c.Claim.Review == config.ReviewAlways,
		Review: c.Tasks.Statuses.Review != "", Failed: c.Tasks.Statuses.Failed != "",
		NoNote: !tasks.HasNote(), Words: tasks.Words(),
	}
}

// settle returns the settle wait: none with a shared journal, which ensures that there is one
// claimer.
func settle(c config.Config) time.Duration {
	if c.Journal.Shared() {
		return 0
	}
	return c.Claim.Settle
}

// interval is the time between two syncs, and before a retry.
func (d *works) interval() time.Duration { return d.live.Load().Sync.Interval }
