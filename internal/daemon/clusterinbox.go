package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/alive"
	"dibs/internal/arbiter/mailbox"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

// keptInbox is where triggers are kept: in the journal, or in the cluster by way of it.
func (d *works) keptInbox(ctx context.Context, l *ledger) (broker.Inbox, error) {
	if d.member == nil {
		return *l, d.journal.LeaveShared(ctx)
	}
	d.journal.ShareInbox()
	d.member.inbox = mailbox.New(mailbox.Config{
		Etcd: d.member.Etcd, Journal: *l, Trouble: func() error { return d.member.ledger.Trouble() },
		Keep: func() time.Duration { return d.live.Load().Events.Keep }, Visibility: d.config.Inbox.Visibility,
		Lives: func(name string) bool {
			var p alive.Process
			return json.Unmarshal([]byte(name), &p) != nil || alive.LifeOf(p) != alive.Gone
		},
		News: func() { d.broker.Told() }, Offered: func() { wake(d.offers) }, Owes: d.inboxTold, Log: d.log,
	})
	d.setLeads(d.config)
	// Before the task is let go of in the cluster: who looks at the board next knows then that
	// the name on it is an offer, and has nothing to tell of what was completed, with less to say.
	l.ended = func(ctx context.Context) { d.push(context.WithoutCancel(ctx)) }
	return d.member.inbox, nil
}

// setLeads names the agents that the configuration has told what is finished.
func (d *works) setLeads(c config.Config) {
	if d.member != nil {
		d.member.inbox.SetLeads(leads(c))
	}
}

// shareInbox keeps this daemon's part in the cluster's inbox until ctx ends.
func (d *works) shareInbox(ctx context.Context, loops *sync.WaitGroup) {
	if d.member == nil {
		return
	}
	loops.Go(func() { d.member.inbox.Run(ctx) })
	loops.Go(func() { d.pushLoop(ctx) })
	loops.Go(func() { d.hearLoop(ctx) })
}

// inboxTold takes note that something may have been stored for agents.
func (d *works) inboxTold() {
	if d.member != nil {
		wake(d.member.owed)
	}
}

// pushLoop passes on what is stored here for agents. It is woken when there may be something.
func (d *works) pushLoop(ctx context.Context) {
	for wait := time.Duration(0); await(ctx, d.member.owed, wait); {
		wait = time.Hour
		if !d.push(ctx) {
			wait = tendEvery
		}
	}
}

// push passes on what is stored here for agents, and reports whether it could.
func (d *works) push(ctx context.Context) bool {
	err := d.member.inbox.Push(ctx)
	if _, away := errors.AsType[*claim.ArbiterError](err); err != nil && !away && ctx.Err() == nil {
		d.log.Warn("what agents are told could not be passed on to the cluster; it is tried again", "error", err)
	}
	return err == nil
}

// listens notes that an agent polls here.
func (d *works) listens(ctx context.Context, agent string) {
	if d.member == nil {
		return
	}
	if err := d.member.inbox.Listens(ctx, agent); err != nil {
		d.log.Debug("the others do not know that an agent polls here", "agent", agent, "error", err)
	}
}

// hearLoop brings in what was written in Notion for agents that poll at other members: on the
// tasks that they have here, and, where this one leads, for all in the mesh log.
func (d *works) hearLoop(ctx context.Context) {
	for {
		select {
		case <-time.After(min(tendEvery, d.interval(), d.config.Inbox.Comments)):
		case <-ctx.Done():
			return
		}
		for agent, elsewhere := range d.member.inbox.Listeners() {
			if !elsewhere {
				continue // its own poll hears
			}
			if added, _ := d.ears.hear(ctx, agent); added > 0 {
				d.broker.Told()
			}
		}
	}
}

// afterEnd is how long after an offer has ended the member that leads takes it back, if the
// one that made it has not.
const afterEnd = time.Minute

// offerDue says when an offer that nobody has answered is to be taken back, and whether here.
func (d *works) offerDue(o inbox.Offer) (at time.Time, here bool) {
	if d.member == nil || d.member.inbox.Ours(o) {
		return o.Until, true
	}
	return o.Until.Add(afterEnd), d.leads()
}

// tellBoard tells the cluster what people have done on the board, if this member is to. It
// passes over tasks that the protocol is at work on, and reports whether there are any.
func (d *works) tellBoard(ctx context.Context) (busy bool) {
	m := d.member
	switch {
	case m == nil:
		return false
	case !d.leads():
		m.led = time.Time{}
		m.inbox.TellNoMore()
		return false
	case m.led.IsZero():
		m.led = d.notion.Now()
	}
	// What it takes over was told by somebody who may have been ahead.
	if !d.mirror.Listed() || d.mirror.Standing().SyncedAt.Before(m.led) {
		return false
	}
	blocked := func(t task.Task) []task.ID {
		return task.Unfinished(t, func(on task.ID) (task.Status, bool) {
			known, ok := d.mirror.Task(on)
			return known.Status, ok && !known.Trashed
		})
	}
	busy, err := m.inbox.TellBoard(ctx, mailbox.Board{
		Tasks: d.mirror.Tasks, Ready: func(t task.Task) bool { return feed.NewState(t, blocked(t)).Ready }, Now: d.notion.Now(),
	})
	if _, away := errors.AsType[*claim.ArbiterError](err); err != nil && !away && ctx.Err() == nil {
		d.log.Warn("the cluster could not be told what happened on the board; it is tried again", "error", err)
	}
	return busy
}
