package daemon

import (
	"context"
	"sync/atomic"

	"dibs/internal/claim"
	"dibs/internal/notion"
)

// bot is this daemon's user in Notion.
type bot struct{ known atomic.Pointer[string] }

// id returns the user's id; empty while it is unknown.
func (b *bot) id() string {
	if id := b.known.Load(); id != nil {
		return *id
	}
	return ""
}

// knowBot asks Notion who this daemon is to it, until that has been answered once in a term. Only
// the check of a shared journal and webhooks need to know.
func (d *works) knowBot(ctx context.Context) {
	if d.bot.id() != "" || d.doubt == nil && d.hookListen == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
	defer cancel()
	me, err := d.notion.Me(ctx)
	if err != nil {
		d.log.Debug("who this daemon is to Notion is not known yet", claim.AttrError, err)
		return
	}
	d.bot.known.Store(&me.ID)
	if d.doubt != nil {
		d.doubt.SetBot(me.ID)
	}
}
