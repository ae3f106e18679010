package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/task"

	"github.com/robfig/cron/v3"
)

// editorWait is how long the loss of a claim may wait for the name of who ended it.
const editorWait = 3 * time.Second

// checkHeld guards all claims held here once by their pages: anything may have happened to them
// while no daemon ran. If that fails, it tries again after the next successful sync.
func (d *leader) checkHeld(ctx context.Context) time.Duration {
	if d.held.checked {
		return clock.UntilWoken
	}
	err := d.guard(ctx, true)
	if d.held.checked = err == nil; !d.held.checked && ctx.Err() == nil {
		d.log.Warn("held claims could not be checked; they will be once Notion answers", claim.AttrError, err)
	}
	return clock.UntilWoken
}

// afterSync guards the claims held here by what a sync has read, and finds late writes of abandoned
// claims.
func (d *leader) afterSync(ctx context.Context, r mirror.Result) error {
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
	d.titles.Wake()
	if err == nil {
		d.held.Wake()
	}
	return err
}

// afterFailedSync guards the claims held here by their pages, unless Notion is down or asked for a
// pause.
func (d *leader) afterFailedSync(ctx context.Context, again bool) {
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
func (d *leader) guard(ctx context.Context, pages bool) error {
	var errs []error
	for _, cl := range d.claimer.Claims("") {
		if cl.State != claim.Held {
			continue
		}
		var err error
		now, ok := d.mirror.Task(cl.Task.ID)
		if ok && now.EditedBy != "" && now.EditedBy != cl.Task.EditedBy {
			asking, cancel := context.WithTimeout(notion.Impatient(ctx), editorWait)
			d.users.Learn(asking, now.EditedBy)
			cancel()
		}
		if pages || !ok {
			err = d.claimer.Guard(ctx, cl.ID, nil)
		} else {
			err = d.claimer.Guard(ctx, cl.ID, &now)
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
func (d *leader) takeSteps(ctx context.Context) time.Duration {
	next, err := d.claimer.RunDue(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("a step that Notion is owed failed; it is tried again", claim.AttrError, err)
	}
	return d.left(next, d.interval())
}

// backLoop takes the steps that claims are owed as soon as Notion is reachable again.
func (d *leader) backLoop(ctx context.Context) {
	for back := d.notion.Back(); ; {
		select {
		case <-back:
		case <-ctx.Done():
			return
		}
		back = d.notion.Back()
		if err := d.claimer.Hasten(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("a step that Notion is owed failed; it is tried again", claim.AttrError, err)
		}
		d.due.Wake()
	}
}

// doubtAll compares the mirror's tasks with the journal after a sync. The broker hears of the agents
// that claim through strangers.
func (d *leader) doubtAll(ctx context.Context) {
	for t := range d.mirror.Tasks() {
		d.doubt.See(ctx, t)
		if token := claim.ParseToken(t.Token); token.ID != "" && !token.Void && d.doubt.Strange(token.ID) {
			made, _ := token.ID.Minted()
			d.broker.Met(cmp.Or(token.By, t.ClaimedBy), d.notion.Now().Sub(made))
		}
	}
}

// answered checks the tasks about which agents asked people. An agent hears of a task that a person
// opened again; the question ends with its task. This costs no requests.
func (d *leader) answered(ctx context.Context) error {
	questions, err := d.journal.Questions(ctx)
	if err != nil {
		return err
	}
	added := 0
	for _, q := range questions {
		t, known := d.mirror.Task(q.Task)
		next, opened, over := q.See(t, known, d.notion.Now())
		if next == q && !over {
			continue
		}
		var news []inbox.Trigger
		if opened != nil {
			news = append(news, *opened)
		}
		n, err := d.journal.SetQuestion(ctx, next, over, news...)
		if err != nil {
			return err
		}
		added += n
	}
	if added > 0 {
		d.broker.Published()
	}
	return nil
}

// tidyUp tidies the board after a sync.
func (d *leader) tidyUp(ctx context.Context) time.Duration {
	if d.mirror.Closed() != nil {
		return clock.UntilWoken // the mirror is incomplete
	}
	err := d.tidy(ctx)
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	if trouble != "" && trouble != d.untidy.trouble && ctx.Err() == nil {
		d.log.Warn("what claims that are over have left on tasks could not be taken off yet; it is tried again", claim.AttrError, err)
	}
	d.untidy.trouble = trouble
	return clock.UntilWoken
}

// tidy clears the remains of this daemon's ended claims from tasks' pages, as the mirror has them:
// people undo, restore and duplicate what they see. If a page fails, the others are still tidied,
// and it is tried again after the next sync.
func (d *leader) tidy(ctx context.Context) error {
	var errs []error
	for t := range d.mirror.Tasks() {
		tidied, err := d.claimer.Tidy(ctx, t)
		if tidied {
			d.due.Wake()
		}
		if tidied && err == nil {
			d.log.Warn("a task showed a claim that is over, which is taken off", claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title), claim.AttrHolder, claim.Brief(t.ClaimedBy), claim.AttrTask, t.ID)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || err != nil && !claim.Asked(err) {
			return errors.Join(errs...) // Notion cannot be asked now
		}
	}
	return errors.Join(append(errs, d.claimer.Repay(ctx, d.mirror.Task))...)
}

// publishBatch is how many tasks one transaction of the journal publishes. Other writers, claims
// above all, get their turn in between.
const publishBatch = 200

// publishRetry is the pause before busy tasks are tried again.
const publishRetry = time.Second

// publishNews adds what happened to tasks to the feed. Every change of a task wakes it.
func (d *leader) publishNews(ctx context.Context) time.Duration {
	busy, err := d.publish(ctx)
	d.broker.Published() // even if nothing was published: the protocol adds to the feed, too
	if err != nil && ctx.Err() == nil {
		d.log.Error("agents could not be told what happened", claim.AttrError, err)
	}
	if busy {
		return publishRetry
	}
	return clock.UntilWoken // by a change of a task
}

// publish compares every changed task with its last published state and adds the difference to the
// feed. It skips tasks that the protocol is working on, and returns busy if there are any. The very
// first call only records the tasks' states: nothing before the daemon's first start is news.
func (d *leader) publish(ctx context.Context) (busy bool, err error) {
	if !d.mirror.Listed() {
		return false, nil // changes are known only once the whole board was read
	}
	if !d.news.begun {
		if d.news.begun, err = d.journal.FeedBegun(ctx); err != nil {
			return false, err
		}
	}
	for again := true; again; {
		again, busy = false, false
		for last := task.ID(""); ; {
			ids, err := d.journal.Unpublished(ctx, last, publishBatch)
			if err != nil {
				return busy, err
			}
			if len(ids) == 0 {
				break
			}
			last = ids[len(ids)-1]
			publish := func(idle []task.ID) error {
				busy = busy || len(idle) < len(ids)
				more, err := d.journal.Publish(ctx, d.notion.Now(), idle)
				again = again || more
				return err
			}
			if d.news.begun {
				err = d.claimer.Between(ids, publish)
			} else {
				err = publish(ids) // this only records them
			}
			if err != nil {
				return busy, err
			}
		}
	}
	if d.news.begun {
		return busy, nil
	}
	if err := d.journal.BeginFeed(ctx); err != nil {
		return busy, err
	}
	return d.publish(ctx) // publishes what changed since they were recorded
}

// warn publishes warnings to agents whose leases are about to end.
func (d *leader) warn(ctx context.Context) time.Duration {
	next, err := d.claimer.Warn(ctx)
	if err != nil && ctx.Err() == nil {
		d.log.Error("agents could not be warned that their leases end", claim.AttrError, err)
		return d.left(next, d.interval())
	}
	return d.left(next, clock.UntilWoken) // by a claim or a renewal
}

// takeBackOffers withdraws the offers that nobody answered in time. Changes of claims wake it.
func (d *leader) takeBackOffers(ctx context.Context) time.Duration {
	next, err := d.broker.TakeBackOffers(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.log.Warn("an offer that nobody answered could not be taken back; it is tried again", claim.AttrError, err)
		}
		return d.left(next, d.interval())
	}
	return d.left(next, clock.UntilWoken) // by whoever makes an offer
}

// newJobs returns the jobs. They run at their times once Start is called.
func (d *leader) newJobs(ctx context.Context, s config.Schedule) (*jobs, error) {
	j := &jobs{
		Cron: cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger))),
		run:  make(map[string]func()), ids: make(map[string]cron.EntryID),
	}
	for key, job := range map[string]func(context.Context) error{
		"sweep": func(ctx context.Context) error {
			_, err := d.broker.Sweep(ctx, broker.Caller{}, new(api.KeyedInput[*api.SweepRequest]))
			return err
		},
		"full_sync": func(ctx context.Context) error {
			_, err := d.mirror.SyncAll(ctx)
			return err
		},
		"prune": func(ctx context.Context) error {
			keep := d.live.Load()
			// Facts leave the feed first: Prune removes those that are in neither view.
			if _, err := d.journal.PruneFeed(ctx, time.Now().Add(-keep.Events.Keep)); err != nil {
				return err
			}
			if _, err := d.journal.Prune(ctx, time.Now().Add(-keep.Journal.Keep)); err != nil {
				return err
			}
			// A trigger that was taken and never acknowledged is kept as long as any other, counted
			// from the end of its visibility.
			if _, err := d.journal.PruneInbox(ctx, time.Now().Add(-keep.Events.Keep-d.config.Inbox.Visibility)); err != nil {
				return err
			}
			if _, err := d.journal.PruneSeen(ctx, time.Now().Add(-keep.Journal.Keep)); err != nil {
				return err
			}
			return d.journal.Compact(ctx)
		},
	} {
		j.run[key] = func() {
			if err := job(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("a scheduled job failed", "job", key, claim.AttrError, err)
			}
		}
	}
	return j, errors.Join(j.set("sweep", s.Sweep), j.set("full_sync", s.FullSync), j.set("prune", "@every 1h"))
}
