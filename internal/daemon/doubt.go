package daemon

import (
	"cmp"
	"context"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/doubt"
	"dibs/internal/mirror"
)

// openDoubt starts the check whether this journal's daemon is alone on the board, and whether the
// database of a shared journal was restored from a backup. A journal of the daemon's own needs no
// check of the latter: it lies in the state directory with everything else.
func (d *works) openDoubt(ctx context.Context) (err error) {
	c := doubt.DoubtConfig{
		Claims: d.claimer, Policy: d.claimer.Policy(), Storage: d.journal, Clock: d.notion, Log: d.log,
	}
	if lost := d.journal.Lost(); !lost.Until.IsZero() {
		d.log.Error("what was accepted may be lost: have agents and people look at what they did then", claim.AttrReason, lost.String())
		from, until := lost.Ago() // Notion's clock may be another one than the database's
		c.LostFrom, c.LostUntil = d.notion.Now().Add(-from), d.notion.Now().Add(-until)
	}
	d.doubt, err = doubt.OpenDoubt(ctx, c)
	return err
}

// board is the mirror; it is closed for claims while the journal is in doubt.
type board struct {
	*mirror.Mirror
	daemon *works
}

// Closed returns why no task may be claimed now; nil if any may.
func (b board) Closed() error {
	if why := b.daemon.doubt.Why(); why != nil {
		return why
	}
	if why := b.daemon.closed(); why != nil {
		return why
	}
	return b.Mirror.Closed()
}

// doubtAll compares the mirror's tasks with the journal after a sync. The broker hears of the agents
// that claim through strangers.
func (d *works) doubtAll(ctx context.Context) {
	for t := range d.mirror.Tasks() {
		d.doubt.See(ctx, t)
		if token := claim.ParseToken(t.Token); token.ID != "" && !token.Void && d.doubt.Strange(token.ID) {
			made, _ := token.ID.Minted()
			d.broker.Met(cmp.Or(token.By, t.ClaimedBy), d.notion.Now().Sub(made))
		}
	}
}

// sharedDoor implements broker.Cluster on the leader of a shared journal.
type sharedDoor struct{ *works }

// Members returns the members, and why nothing is granted, if so.
func (d sharedDoor) Members(ctx context.Context) (api.Cluster, error) {
	c, err := d.shared.Members(ctx)
	if why := d.doubt.Why(); why != nil {
		c.LastError = why.Error()
	}
	return c, err
}

// Adopt ends the doubt for good: the database counts as the journal's, as it is.
func (d sharedDoor) Adopt(ctx context.Context, by string) (api.Cluster, error) {
	why := d.doubt.Why()
	adopted, err := d.doubt.Adopt(ctx)
	if err != nil {
		return api.Cluster{}, err
	}
	if adopted {
		d.log.Warn("the journal's database was adopted as it is", claim.AttrBy, by, claim.AttrReason, why)
		d.broker.Changed() // waiters may claim again
	}
	c, err := d.Members(ctx)
	c.Adopted = &adopted
	return c, err
}

// AgentsAt returns the names that users of a member's machine may use.
func (d sharedDoor) AgentsAt(member string) ([]broker.Agent, bool) { return d.shared.agentsAt(member) }

var _ broker.Cluster = sharedDoor{}
