package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/kit/clock"
)

// unbegun is the error of begin, joined with those of its cleanup.
type unbegun struct {
	error
	passes bool // the cause may pass by itself
}

func (u *unbegun) Unwrap() error { return u.error }

// begin makes a leader on the journal that open opens; s is nil with a journal of the daemon's own. The
// caller must call run or cleanup.run next. Its order: what may refuse the start comes before what
// changes anything, the claims of the last run are recovered before anything else is done with them,
// and loops run only with run.
func begin(ctx context.Context, p *process, s *shared, open func(context.Context) (*journal.Journal, error)) (_ *leader, err error) {
	d := &leader{process: p, shared: s, config: *p.live.Load(), lines: newLines(p.log)}
	d.due, d.leases, d.offers = clock.NewLoop(0, d.takeSteps), clock.NewLoop(0, d.warn), clock.NewLoop(0, d.takeBackOffers)
	d.news.Loop, d.held.Loop, d.untidy.Loop = clock.NewLoop(0, d.publishNews), clock.NewLoop(0, d.checkHeld), clock.NewLoop(clock.UntilWoken, d.tidyUp)
	d.titles = clock.NewLoop(clock.UntilWoken, func(ctx context.Context) time.Duration { return d.mirror.ReadTitles(ctx) })
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
	if carried := d.journal.CarriedOver(); carried != "" {
		d.log.Info(carried)
	}
	// The log hears of facts from the first one on, and of the last ones once the journal is closed.
	d.journal.Hear(d.lines.hear)
	d.cleanup = append(d.cleanup, d.lines.close, d.journal.Close)
	d.journal.Watch(func(why error) {
		if why != nil {
			d.log.Error("the journal cannot be written: nothing is accepted until it can be", claim.AttrError, why)
		} else {
			d.log.Info("the journal can be written again")
		}
	})
	// With another board than the journal's, nothing of it may be touched.
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
	// Before the mirror has anything to say of these claims.
	if err := d.claimer.Recover(ctx); err != nil {
		return nil, err
	}
	d.cleanup = append(d.cleanup, d.mirror.Close)
	if err := d.mirror.Begin(ctx); err != nil {
		return nil, err
	}
	// A start that failed has not made the journal this board's.
	if err := errors.Join(d.keepHome(ctx), d.keepSources(ctx)); err != nil {
		return nil, err
	}
	d.knowBot(ctx)
	for _, w := range d.tasks.Warnings() {
		d.log.Warn(w)
	}
	return d, nil
}

// drainTime is how long a stopping daemon waits for the requests it is serving, and then once more
// for its log entries to be delivered. The journal keeps the rest for the next run.
const drainTime = 10 * time.Second

// run implements Daemon.Run for a daemon that leads. It serves the socket listen and closes it; if
// listen is nil, the front passes requests to the server. When over is closed, run ends at once:
// another daemon may lead, and nothing can be saved any more. over is nil for a journal of the
// daemon's own.
func (d *leader) run(ctx context.Context, listen net.Listener, over <-chan struct{}) (err error) {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()

	d.reloading <- struct{}{}
	schedule, err := d.newJobs(work, d.live.Load().Schedule)
	d.jobs = schedule
	<-d.reloading
	if err != nil {
		return err
	}
	var loops sync.WaitGroup
	for _, run := range d.loops() {
		loops.Go(func() { run(work) })
	}
	drain, stopDraining := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDraining()
	for _, q := range d.queues {
		loops.Go(func() { q.Run(drain, work.Done()) })
	}
	schedule.Start()
	// Prune now: a daemon may always be stopped before its first scheduled prune.
	loops.Go(schedule.run["prune"])

	served := make(chan error, 1)
	if listen != nil {
		go func() { served <- d.server.Serve(listen) }()
	}
	if d.scrapes != nil {
		loops.Go(func() {
			if err := d.server.ServeMetrics(d.scrapes); err != nil {
				d.log.Error("metrics are on the socket only: their own listener failed; restart the daemon, or set another metrics.listen", claim.AttrError, err)
			}
		})
	}
	d.log.Info("serving", "socket", d.listen.Addr().String(), "state_dir", d.config.StateDir, "notion", d.config.Notion.BaseURL)
	select {
	case err = <-served:
		err = fmt.Errorf("the socket failed: %w: start dibs serve again", err)
	case <-ctx.Done():
		d.log.Info("stopping")
	case <-over:
		err = journal.ErrDeposed
	}
	patience := drainTime
	if err != nil && errors.Is(err, journal.ErrDeposed) {
		patience = 0
	}

	d.broker.Close() // wakes all waiters
	graceful, cancel := context.WithTimeout(work, patience)
	defer cancel()
	// A request that is cut off still gets an answer, and its idempotency key is saved, while the
	// journal is open.
	defer context.AfterFunc(graceful, d.claimer.Close)()
	if serr := d.server.Shutdown(graceful); serr != nil {
		d.log.Warn("some requests were cut off; their claims are withdrawn at the next start", claim.AttrError, serr)
	}
	jobs := schedule.Stop()
	select {
	case <-jobs.Done():
	case <-graceful.Done():
	}
	stopWork()
	d.claimer.Close()
	<-jobs.Done()
	defer time.AfterFunc(patience, stopDraining).Stop()
	loops.Wait()
	return err
}

// loops returns what runs for as long as the daemon leads, besides the outboxes.
func (d *leader) loops() []func(context.Context) {
	all := []func(context.Context){
		d.lines.loop.Run, d.mirror.Run, d.hooks.loop.Run, d.hooks.board.Run, d.alive.Run, d.reservations.Run,
		d.due.Run, d.news.Run, d.leases.Run, d.held.Run, d.untidy.Run, d.offers.Run, d.titles.Run, d.backLoop,
	}
	if d.shared != nil {
		all = append(all, d.shared.machines.Run)
	}
	return all
}

// listenForScrapes listens at metrics.listen, if set. It refuses an address that other machines can
// reach, whatever its name.
func (d *leader) listenForScrapes(ctx context.Context) error {
	address := d.config.Metrics.Listen
	if address == "" {
		return nil
	}
	var network net.ListenConfig
	l, err := network.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("metrics.listen: %w: set another port, or none", err)
	}
	d.cleanup = append(d.cleanup, func() error { return closeOnce(l) })
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("metrics.listen: %s means %s, which other machines can reach: want a loopback address such as 127.0.0.1:9464", address, l.Addr())
	}
	d.scrapes = l
	d.log.Info("metrics can be read by every user of this machine", "url", "http://"+l.Addr().String()+"/metrics")
	return nil
}
