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
	"dibs/internal/alive"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/creation"
	"dibs/internal/journal"
	"dibs/internal/metrics"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/others"
	"dibs/internal/owed"
	"dibs/internal/reserve"
	"dibs/internal/server"
	"dibs/internal/worklog"
	"dibs/internal/workspace"
)

// works is what a daemon works with while it leads: all that is made from the journal.
type works struct {
	*Daemon
	config config.Config // as at the start; Daemon.live is the one that reloads change

	notion  *notion.Client
	tasks   *notion.Tasks
	journal *journal.Journal
	claimer *claim.Claimer
	mirror  *mirror.Mirror
	queues  []*owed.Queue   // of the logs and of comments: none waits for another
	others  *others.Lookout // nil if the mesh log cannot be asked
	doubt   *others.Doubt   // nil with a journal of its own
	// overwrites tells what the daemon cannot save people's edits from.
	overwrites overwrites
	broker     *broker.Broker
	backlog    broker.Memory[struct{}, []journal.Backlog]
	alive      *alive.Watch
	reserved   *reserve.Book
	server     *server.Server
	metrics    *metrics.Metrics
	tally      *tally
	scrapes    net.Listener // for metrics alone; nil without one
	ears       ears

	jobs *jobs

	// The loops that others wake.
	due, news, leases, held, untidy, offers *clock.Loop

	checked bool   // held claims were, see checkHeld; for held only
	begun   bool   // the feed has begun, see journal.Begin; for news only
	said    string // why something could not be tidied, the last time; for untidy only

	cleanup cleanup
}

// unbegun is why a daemon could not begin, with what went wrong as it gave up.
type unbegun struct {
	error
	passes bool // why it could not may pass by itself
}

func (u *unbegun) Unwrap() error { return u.error }

// begin makes all that a daemon works with, on the journal that open opens. The caller must
// call run or close next.
func (h *Daemon) begin(ctx context.Context, open func(context.Context) (*journal.Journal, error)) (_ *works, err error) {
	d := &works{Daemon: h, config: *h.live.Load()}
	d.due, d.news, d.leases = clock.NewLoop(0, d.takeSteps), clock.NewLoop(0, d.tellNews), clock.NewLoop(0, d.warn)
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
	d.cleanup = append(d.cleanup, d.journal.Close)
	d.journal.Watch(func(why error) {
		if why != nil {
			d.log.Error("the journal cannot be written: nothing is accepted until it can be", "error", why)
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
	kept := func() error { return nil }
	if down == nil {
		kept = d.keepSources(ctx)
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
	if err := errors.Join(d.keepHome(ctx), kept()); err != nil {
		return nil, err
	}
	d.knowBot(ctx)
	for _, w := range d.tasks.Warnings() {
		d.log.Warn(w)
	}
	return d, nil
}

// connect opens the three databases, which checks token, sharing and schema. It does
// not wait for the end of a long pause that Notion asks for. down says why the tasks
// database is as an earlier run knew it; nil if it is as Notion says.
func (d *works) connect(ctx context.Context, transport http.RoundTripper) (logs map[claim.Log]worklog.Writer, down, err error) {
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
	if err := d.recallSources(ctx); err != nil {
		return nil, nil, err
	}
	asking := notion.Impatient(ctx)
	if known != "" {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeoutCause(asking, connectWait, errConnect)
		defer cancel()
	}
	if down, err = d.openTasks(ctx, asking, known); err != nil {
		return nil, nil, fmt.Errorf("databases.tasks: %w", err)
	}
	logs = make(map[claim.Log]worklog.Writer)
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

// build makes the parts that talk to each other. down is as of connect.
func (d *works) build(ctx context.Context, logs map[claim.Log]worklog.Writer, down error) (err error) {
	d.mirror, err = mirror.New(ctx, mirror.Config{
		Source: source{d.tasks, d.notion}, Storage: d.journal, Keep: d.config.Sync.KeepFinished, Interval: d.config.Sync.Interval,
		Failure: down, Watcher: watcher{d}, Notion: d.notion, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.tasks.Remember(d.mirror.Task)
	policy := policyOf(d.config, d.tasks)
	d.metrics = metrics.New(metrics.Options{
		Version: d.version, WriteWindow: policy.WriteWindow, Settle: policy.Settle, Standing: d.standing, Log: d.log,
	})
	d.tally = &tally{journal: d.journal, sent: d.requests, now: d.notion.Now}
	led := ledger{Journal: d.journal, metrics: d.metrics, tally: d.tally, stored: func() {
		for _, q := range d.queues {
			q.Wake()
		}
		d.news.Wake() // of the tasks that waited for this one
	}}
	d.claimer, err = claim.New(claim.Config{
		Store: d.tasks, Ledger: led, Policy: policy,
		Board: board{d.mirror, d}, Watcher: watcher{d}, Log: d.log,
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
		d.queues = append(d.queues, owed.New(owed.Config{
			Kind: owed.Kind(log), Ledger: d.journal, Entries: worklog.Entries{Log: log, Writer: logs[log]},
			Notion: d.notion, Watcher: watcher{d}, Log: d.log,
		}))
	}
	d.lookOut(logs[claim.MeshLog])
	d.ears.daemon, d.ears.turn = d, make(chan struct{}, 1)
	d.ears.mesh, _ = logs[claim.MeshLog].(messages)
	if err := d.journal.SetLeads(ctx, leads(d.config)); err != nil {
		return err
	}
	d.alive, err = alive.New(ctx, alive.Config{
		Storage: d.journal, Claims: kept{d.claimer, d}, Processes: d.processes(), Log: d.log,
	})
	if err != nil {
		return err
	}
	d.reserved, err = reserve.NewBook(ctx, reserve.Config{
		Storage: led, Claims: d.claimer, Processes: d.processes(), Clock: d.notion, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.broker = broker.New(broker.Config{
		Claimer: d.claimer, Mirror: d.mirror, Journal: led, Feed: led, Alive: d.alive, Inbox: d.inboxOf(led), Reserved: d.reserved, Clock: d.notion, Notion: d.notion,
		Past: led, House: house{d},
		Agents: agentsOf(d.config), Names: led, Naming: namingOf(d.config), Fields: d.config.Tasks.Fields, Comments: said, Pages: pages{d.notion}, Creations: creation.New(d.journal, d.tasks, d.mirror.Observe, d.log), Cluster: d.cluster(), Log: d.log,
	})
	d.server = server.New(server.Options{
		Broker: measured{d.broker, d.metrics}, Journal: d.journal, Log: d.log, Version: d.version,
		Metrics: d.metrics, Machines: d.machines(),
	})
	d.server.SetListed(listed(d.config))
	return nil
}

// policyOf returns the protocol's policy under this configuration. A voided claim must
// stay visible for longer than holders take to look at theirs: that is the grace.
func policyOf(c config.Config, tasks *notion.Tasks) claim.Policy {
	return claim.Policy{
		Timeout: c.Claim.Timeout, WriteWindow: c.Claim.WriteWindow, Settle: settle(c),
		OpenOnly: c.Claim.Override == config.OverrideOpenOnly, Exclusive: c.Claim.Exclusive || c.Journal.Shared(),
		Request:     c.Notion.Timeout,
		Grace:       2*c.Sync.Interval + settle(c) + c.Notion.Timeout,
		MaxLifetime: c.Claim.MaxLifetime, MaxPerAgent: c.Claim.MaxPerAgent,
		MaxAttempts: c.Claim.MaxAttempts,
		Review:      c.Tasks.Statuses.Review != "", Failed: c.Tasks.Statuses.Failed != "",
		NoToken: !tasks.HasToken(),
	}
}

// settle is the wait after a claim write: there is none where one claimer is made sure of.
func settle(c config.Config) time.Duration {
	if c.Journal.Shared() {
		return 0
	}
	return c.Claim.Settle
}

// interval is the time between two syncs, and before what has failed is tried again.
func (d *works) interval() time.Duration { return d.live.Load().Sync.Interval }
