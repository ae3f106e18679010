package daemon

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/foreign"
	"dibs/internal/mirror"
	"dibs/internal/notion"
)

// openDoubt prepares to notice that the database of a journal that others share was restored.
// One of the daemon's own is in its state directory, with the rest of its state.
func (d *works) openDoubt(ctx context.Context) (err error) {
	if d.shared == nil {
		return nil
	}
	d.doubt, err = foreign.OpenDoubt(ctx, foreign.DoubtConfig{
		Claims: d.claimer, Policy: d.claimer.Policy(), Storage: d.journal, Clock: d.notion, Log: d.log,
	})
	return err
}

// knowBot asks Notion who this daemon is, once in a term.
func (d *works) knowBot(ctx context.Context) {
	if d.doubt == nil || d.doubt.Bot() != "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
	defer cancel()
	bot, err := d.notion.Me(ctx)
	if err != nil {
		d.log.Debug("who this daemon is to Notion is not known yet", "error", err)
		return
	}
	d.doubt.SetBot(bot.ID)
}

// board is the mirror, on which nothing is claimed while there is a doubt.
type board struct {
	*mirror.Mirror
	daemon *works
}

// Closed says why no task may be claimed now; nil if any may.
func (b board) Closed() error {
	if why := b.daemon.doubt.Why(); why != nil {
		return why
	}
	return b.Mirror.Closed()
}

// doubtAll looks at what the board shows after a sync.
func (d *works) doubtAll(ctx context.Context) {
	if d.doubt == nil {
		return
	}
	d.knowBot(ctx)
	for t := range d.mirror.Tasks() {
		d.doubt.See(ctx, t)
	}
}

// sharedDoor is a journal that daemons share in the terms of the broker of the one that leads.
type sharedDoor struct{ *works }

// Members says who shares the journal, and why nothing is granted, if that is so.
func (d sharedDoor) Members(ctx context.Context) (api.Cluster, error) {
	c, err := d.shared.Members(ctx)
	if why := d.doubt.Why(); why != nil {
		c.LastError = why.Error()
	}
	return c, err
}

// Adopt takes the database as it is for the journal's, for good.
func (d sharedDoor) Adopt(ctx context.Context, by string) (api.Cluster, error) {
	why := d.doubt.Why()
	adopted, err := d.doubt.Adopt(ctx)
	if err != nil {
		return api.Cluster{}, err
	}
	if adopted {
		d.log.Warn("the journal's database was adopted as it is", "user", by, "doubted", why)
		d.broker.Changed() // who waits may have a task now
	}
	c, err := d.Members(ctx)
	c.Adopted = &adopted
	return c, err
}

// AgentsAt returns the names that users of a member's machine may go by.
func (d sharedDoor) AgentsAt(member string) ([]broker.Agent, bool) { return d.shared.agentsAt(member) }

var _ broker.Cluster = sharedDoor{}
