package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/notion"
)

// drainTime is how long a stopping daemon waits for the requests it is serving,
// and then for the log entries it owes. Both are safe in the journal if the time
// is not enough.
const drainTime = 10 * time.Second

// Run serves agents until ctx ends, then stops: it takes no new requests,
// finishes those it is serving, and delivers what it owes, as far as the time
// allows. It returns nil after an orderly stop.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()

	d.reloading.Lock()
	schedule, err := d.newJobs(work, d.live.Load().Schedule)
	d.jobs = schedule
	d.reloading.Unlock()
	if err != nil {
		return err
	}
	var loops sync.WaitGroup
	loops.Go(func() { d.syncLoop(work) })
	loops.Go(func() { d.dueLoop(work) })
	loops.Go(func() { d.tellLoop(work) })
	loops.Go(func() { d.warnLoop(work) })
	drain, stopDraining := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDraining()
	loops.Go(func() { d.drainLoop(drain, work.Done()) })
	schedule.Start()
	// A daemon that never runs for as long as the schedule waits prunes, too.
	loops.Go(schedule.run["prune"])

	served := make(chan error, 1)
	go func() { served <- d.server.Serve(d.listen) }()
	if d.scrapes != nil {
		loops.Go(func() {
			if err := d.server.ServeMetrics(d.scrapes); err != nil {
				d.log.Error("metrics are on the socket only: their own listener failed", "error", err)
			}
		})
	}
	d.log.Info("serving", "socket", d.listen.Addr().String(), "state_dir", d.config.StateDir, "notion", d.config.Notion.BaseURL)
	select {
	case err = <-served:
		err = fmt.Errorf("the socket failed: %w: start dibs serve again", err)
	case <-ctx.Done():
		d.log.Info("stopping")
	}

	d.broker.Close() // nobody waits for a task any longer
	graceful, cancel := context.WithTimeout(work, drainTime)
	defer cancel()
	if serr := d.server.Shutdown(graceful); serr != nil {
		d.log.Warn("some requests were cut off; their claims are withdrawn at the next start", "error", serr)
	}
	jobs := schedule.Stop()
	select {
	case <-jobs.Done():
	case <-graceful.Done():
	}
	stopWork()
	d.claimer.Close()
	<-jobs.Done()
	defer time.AfterFunc(drainTime, stopDraining).Stop()
	loops.Wait()
	return err
}

// syncLoop keeps the mirror up to date, and after each sync looks after the
// claims held here.
func (d *Daemon) syncLoop(ctx context.Context) {
	checked := false
	check := func() {
		if checked {
			return
		}
		err := d.guard(ctx, true)
		if checked = err == nil; !checked && ctx.Err() == nil {
			d.log.Warn("held claims could not be checked; they will be once Notion answers", "error", err)
		}
	}
	check()
	select {
	case <-d.first:
	case <-ctx.Done():
	}
	for wait := d.interval(); sleep(ctx, wait); {
		err := d.sync(ctx, false)
		if err == nil {
			check()
		}
		wait = d.nextSync(err)
	}
}

// nextSync is how long after a sync that ended so the next one is made. One that
// fails because Notion is down is repeated as soon as it makes sense: it is how the
// daemon finds out that Notion is back.
func (d *Daemon) nextSync(err error) time.Duration {
	var failed *claim.StoreError
	if errors.As(err, &failed) && failed.RetryAfter > 0 {
		return min(max(failed.RetryAfter, time.Second), d.interval())
	}
	return d.interval()
}

// listPatience is how long a pause the reading of the whole board waits for, which
// would else begin anew: the minute over which Notion counts requests, and some.
const listPatience = 75 * time.Second

// sync is the sync of every interval. One that a pause keeps from being made fails:
// the tasks are out of date then.
func (d *Daemon) sync(ctx context.Context, full bool) error {
	if full || !d.listed.Load() {
		ctx = notion.Patient(ctx, listPatience)
	} else {
		ctx = notion.Impatient(ctx)
	}
	_, err := d.pull(ctx, full)
	return err
}

// asked is a sync that somebody waits for.
func (d *Daemon) asked(ctx context.Context, full bool) (api.Sync, error) {
	if err := d.notion.Paused(); err != nil { // another sync, which it would wait for, may be waiting for the end
		return api.Sync{}, err
	}
	return d.resync(notion.Impatient(ctx), full)
}

// resync is a sync that somebody or the schedule asked for. A full one reads the
// schema, too: not every change of it shows in the tasks.
func (d *Daemon) resync(ctx context.Context, full bool) (api.Sync, error) {
	if full {
		if err := d.tasks.Check(ctx); err != nil {
			d.note(err)
			return api.Sync{}, err
		}
	}
	result, err := d.pull(ctx, full)
	return api.Sync{
		Full: result.Full, Read: result.Read, Changed: len(result.Changed), Gone: len(result.Gone),
	}, err
}

// pull brings the mirror up to date and looks after the claims held here: by their
// pages if the tasks cannot be asked for, unless nothing can be asked of Notion.
func (d *Daemon) pull(ctx context.Context, full bool) (mirror.Result, error) {
	said := d.failing()
	result, err := d.refresh(ctx, full)
	// What ended a claim is told together with the claim's end.
	defer wake(d.news)
	if err == nil {
		return result, d.guard(ctx, false)
	}
	if d.notion.Down() == nil && d.notion.Paused() == nil {
		if gerr := d.guard(ctx, true); gerr != nil && !said && ctx.Err() == nil {
			d.log.Warn("held claims could not be looked after", "error", gerr)
		}
	}
	return result, err
}

// refresh brings the mirror up to date.
func (d *Daemon) refresh(ctx context.Context, full bool) (mirror.Result, error) {
	// Whether it is Notion that is down or the query that fails, something else has
	// to tell: claims need no query, and go on in the latter case.
	if d.failing() {
		if err := d.tasks.Check(ctx); err != nil {
			d.note(err)
			return mirror.Result{}, err
		}
	}
	// What the database lacked meanwhile shows in the end in tasks that nobody edited.
	lacking := d.tasks.Broken() != nil
	result, err := d.mirror.Sync(ctx, full || d.lacked.Load() && !lacking)
	if unavailable(err) && !d.failing() {
		if down := d.tasks.Check(ctx); down != nil {
			err = down
		}
	}
	d.note(err)
	if err != nil {
		return result, err
	}
	if lacking = lacking || d.tasks.Broken() != nil; lacking || result.Full {
		d.lacked.Store(lacking)
	}
	if result.Full {
		if err := d.keepSchema(ctx); err != nil {
			return result, err
		}
	}
	for _, c := range result.Changed {
		sighted, err := d.claimer.Sighted(ctx, c.After.Token)
		if err != nil {
			return result, err
		}
		if sighted {
			wake(d.due)
		}
	}
	if result.Full {
		d.listed.Store(true)
	}
	return result, nil
}

// guard compares the held claims with the mirror, or, if pages is set, with
// their pages, and renews those that are due.
func (d *Daemon) guard(ctx context.Context, pages bool) error {
	var errs []error
	for _, cl := range d.claimer.Claims("") {
		if cl.State != claim.Held {
			continue
		}
		var err error
		seen, ok := d.mirror.Task(cl.Task.ID)
		if pages || !ok {
			err = d.claimer.Guard(ctx, cl.ID, nil)
		} else {
			err = d.claimer.Guard(ctx, cl.ID, &seen)
		}
		var lost *claim.Lost
		if errors.As(err, &lost) {
			d.log.Warn("a claim was lost", "claim", cl.ID, "agent", cl.Agent, "task", cl.Task.Title, "holder", lost.Holder, "why", lost.Detail)
			d.broker.Changed()
			continue
		}
		same := func(other error) bool { return other.Error() == err.Error() }
		if err != nil && !slices.ContainsFunc(errs, same) { // what is wrong with the board is so for every claim
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, d.claimer.KeepAlive(ctx))...)
}

// dueLoop takes the steps that claims are owed when they are due, and at once
// when an abandoned claim has turned up.
func (d *Daemon) dueLoop(ctx context.Context) {
	for wait := time.Duration(0); await(ctx, d.due, wait); {
		next, err := d.claimer.RunDue(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("a step that Notion is owed failed; it is tried again", "error", err)
		}
		wait = d.interval()
		if !next.IsZero() {
			wait = max(time.Second, min(wait, next.Sub(d.notion.Now())))
		}
	}
}

// drainLoop delivers log entries as they come up, and once more when the rest
// of the daemon has stopped.
func (d *Daemon) drainLoop(ctx context.Context, stopped <-chan struct{}) {
	for last := false; ; {
		if _, err := d.drainer.RunOnce(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("the outbox failed", "error", err)
		}
		if last || ctx.Err() != nil {
			return
		}
		wait := time.Hour
		if next, ok, err := d.drainer.NextAt(ctx); err == nil && ok {
			wait = max(time.Second, time.Until(next))
		}
		timer := time.NewTimer(wait)
		select {
		case <-d.owed:
		case <-timer.C:
		case <-stopped:
			last = true
		}
		timer.Stop()
	}
}

// sleep waits for d and reports whether ctx is still going.
func sleep(ctx context.Context, d time.Duration) bool { return await(ctx, nil, d) }
