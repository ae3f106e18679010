package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/notion"
)

// editorWait is how long the loss of a claim may wait for the name of who ended it.
const editorWait = 3 * time.Second

// drainTime is how long a stopping daemon waits for the requests it is serving, and then once more
// for its log entries to be delivered. The journal keeps the rest for the next run.
const drainTime = 10 * time.Second

// run implements Daemon.Run for a daemon that leads. It serves the socket listen and closes it; if
// listen is nil, the front passes requests to the server. When over is closed, run ends at once:
// another daemon may lead, and nothing can be saved any more. over is nil for a journal of the
// daemon's own.
func (d *works) run(ctx context.Context, listen net.Listener, over <-chan struct{}) (err error) {
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
func (d *works) loops() []func(context.Context) {
	all := []func(context.Context){
		d.telling.loop.Run, d.mirror.Run, d.hooks.loop.Run, d.hooks.board.Run, d.alive.Run, d.reservations.Run,
		d.due.Run, d.news.Run, d.leases.Run, d.held.Run, d.untidy.Run, d.offers.Run, d.backLoop,
	}
	if d.shared != nil {
		all = append(all, d.shared.machines.Run)
	}
	return all
}

// checkHeld guards all claims held here once by their pages: anything may have happened to them
// while no daemon ran. If that fails, it tries again after the next successful sync.
func (d *works) checkHeld(ctx context.Context) time.Duration {
	if d.checked {
		return clock.UntilWoken
	}
	err := d.guard(ctx, true)
	if d.checked = err == nil; !d.checked && ctx.Err() == nil {
		d.log.Warn("held claims could not be checked; they will be once Notion answers", claim.AttrError, err)
	}
	return clock.UntilWoken
}

// afterSync guards the claims held here by what a sync has read, and finds late writes of abandoned
// claims.
func (d *works) afterSync(ctx context.Context, r mirror.Result) error {
	// At the end, so that agents hear of a claim's end together with its cause.
	defer d.news.Wake()
	d.knowBot(ctx)
	var errs []error
	// All tasks, not only those that this sync changed: a sync that failed, or an earlier run, may
	// have seen the token and got no further.
	for t := range d.mirror.Tasks() {
		sighted, err := d.claimer.Sighted(ctx, t.Token)
		if err != nil {
			errs = append(errs, err)
			break // the journal fails
		}
		if sighted {
			d.due.Wake()
		}
	}
	d.doubtAll(ctx)
	err := errors.Join(append(errs, d.answered(ctx), d.guard(ctx, false))...)
	d.untidy.Wake()
	if err == nil {
		d.held.Wake()
	}
	return err
}

// afterFailedSync guards the claims held here by their pages, unless Notion is down or asked for a
// pause.
func (d *works) afterFailedSync(ctx context.Context, again bool) {
	defer d.news.Wake()
	if d.notion.Down() != nil || d.notion.Paused() != nil {
		return
	}
	if err := d.guard(ctx, true); err != nil && !again && ctx.Err() == nil {
		d.log.Warn("held claims could not be looked after; it is tried again", claim.AttrError, err)
	}
}

// guard compares each claim held here with its task in the mirror, or with its page if pages is
// set. Then it renews the claims that are due.
func (d *works) guard(ctx context.Context, pages bool) error {
	var errs []error
	for _, cl := range d.claimer.Claims("") {
		if cl.State != claim.Held {
			continue
		}
		var err error
		seen, ok := d.mirror.Task(cl.Task.ID)
		if ok && seen.EditedBy != "" && seen.EditedBy != cl.Task.EditedBy {
			asking, cancel := context.WithTimeout(notion.Impatient(ctx), editorWait)
			d.users.Learn(asking, seen.EditedBy)
			cancel()
		}
		if pages || !ok {
			err = d.claimer.Guard(ctx, cl.ID, nil)
		} else {
			err = d.claimer.Guard(ctx, cl.ID, &seen)
		}
		if _, ok := errors.AsType[*claim.Lost](err); ok {
			d.broker.Changed()
			continue
		}
		same := func(other error) bool { return other.Error() == err.Error() }
		if err != nil && !slices.ContainsFunc(errs, same) { // a fault of the board meets every claim
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, d.claimer.KeepAlive(ctx))...)
}

// takeSteps takes the steps that claims are owed as they become due. A late write of an abandoned
// claim wakes it.
func (d *works) takeSteps(ctx context.Context) time.Duration {
	next, err := d.claimer.RunDue(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("a step that Notion is owed failed; it is tried again", claim.AttrError, err)
	}
	return d.left(next, d.interval())
}

// left returns how long a loop waits until next, a time of Notion's: at least a second, unless most
// is shorter, and at most most. It returns most if next is zero.
func (d *works) left(next time.Time, most time.Duration) time.Duration {
	if next.IsZero() {
		return most
	}
	return max(time.Second, min(most, next.Sub(d.notion.Now())))
}
