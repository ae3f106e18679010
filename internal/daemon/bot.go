package daemon

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/notion"
)

// knowBot asks Notion who this daemon is to it, until that has been answered once. Only the check of
// a shared journal and webhooks need to know.
func (d *works) knowBot(ctx context.Context) {
	if d.shared == nil && d.hookListen == nil || d.notion.KnownBot() != "" && (d.shared == nil || d.doubt.Bot() != "") {
		return
	}
	ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
	defer cancel()
	bot, err := d.notion.Bot(ctx)
	if err != nil {
		d.log.Debug("who this daemon is to Notion is not known yet", claim.AttrError, err)
		return
	}
	if d.shared != nil {
		d.doubt.SetBot(bot)
	}
}
